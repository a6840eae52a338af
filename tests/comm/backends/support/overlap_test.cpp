#include "lockstep/comm/backends/support/overlap.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

namespace lockstep::comm {
namespace {

TEST(OverlapsItself, ATensorWithAPlaceForEachElementDoesNot) {
  const auto matrix = at::zeros({6, 4});
  EXPECT_FALSE(overlaps_itself(matrix));
  EXPECT_FALSE(overlaps_itself(matrix.t()));
  EXPECT_FALSE(overlaps_itself(matrix.narrow(1, 1, 2)));
  EXPECT_FALSE(overlaps_itself(matrix.slice(0, 0, 6, 2)));
  EXPECT_FALSE(overlaps_itself(at::zeros({0}).expand({5, 0})));
  EXPECT_FALSE(overlaps_itself(at::zeros({1}).expand({1, 1})));
  EXPECT_FALSE(overlaps_itself(matrix.as_strided({2, 3}, {3, 2})));  // 0 2 4, 3 5 7.
}

TEST(OverlapsItself, ExpandedOrWithWindowsItDoes) {
  EXPECT_TRUE(overlaps_itself(at::zeros({1}).expand({4})));
  EXPECT_TRUE(overlaps_itself(at::zeros({3, 1}).expand({3, 2})));
  EXPECT_TRUE(overlaps_itself(at::zeros({6}).unfold(0, 3, 1)));
  EXPECT_TRUE(overlaps_itself(at::zeros({11}).as_strided({2, 4}, {4, 2})));  // 0 2 4 6, 4 6 8 10.
}

TEST(Overlap, ViewsOfDifferentElementsDoNot) {
  const auto matrix = at::zeros({6, 4});
  const auto columns = matrix.unbind(1);
  const auto blocks = matrix.chunk(2, 1);
  EXPECT_FALSE(overlap(matrix[0], matrix[1]));
  EXPECT_FALSE(overlap(columns[0], columns[1]));
  EXPECT_FALSE(overlap(columns[3], columns[0]));
  EXPECT_FALSE(overlap(blocks[0], blocks[1]));
  EXPECT_FALSE(overlap(columns[0], blocks[1]));
  EXPECT_FALSE(overlap(matrix, at::zeros({6, 4})));
  EXPECT_FALSE(overlap(matrix.narrow(0, 0, 0), matrix));
}

TEST(Overlap, ViewsWithAnElementInCommonDo) {
  const auto matrix = at::zeros({6, 4});
  const auto columns = matrix.unbind(1);
  EXPECT_TRUE(overlap(matrix, matrix));
  EXPECT_TRUE(overlap(matrix, matrix.t()));
  EXPECT_TRUE(overlap(matrix.narrow(0, 0, 3), matrix.narrow(0, 2, 3)));
  EXPECT_TRUE(overlap(columns[1], matrix.narrow(1, 0, 2)));
  EXPECT_TRUE(overlap(matrix[5], columns[3]));
}

std::multiset<const void*> places_of(const at::Tensor& tensor) {
  std::multiset<const void*> places;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) {
      offset += rest % tensor.size(d) * tensor.stride(d);
      rest /= tensor.size(d);
    }
    places.insert(static_cast<const float*>(tensor.const_data_ptr()) + offset);
  }
  return places;
}

// Against a list of all elements' places.
TEST(Overlap, IsRightForAnyStrides) {
  std::mt19937 random(7);
  const auto memory = at::zeros({200});
  const auto draw = [&] {
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    for (unsigned d = random() % 4; d > 0; --d) {
      sizes.push_back(random() % 4);
      strides.push_back(random() % 13);
    }
    return memory.as_strided(sizes, strides, random() % 40);
  };
  int overlapping = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto one = draw();
    const auto other = draw();
    const auto here = places_of(one);
    const auto there = places_of(other);
    const std::set<const void*> distinct(here.begin(), here.end());
    EXPECT_EQ(overlaps_itself(one), distinct.size() != here.size()) << one.sizes() << one.strides();
    const bool common =
        std::any_of(there.begin(), there.end(), [&](const void* at) { return here.count(at) > 0; });
    // A tensor that overlaps itself counts as one that overlaps: it is refused by itself before.
    if (distinct.size() == here.size() && !overlaps_itself(other)) {
      EXPECT_EQ(overlap(one, other), common)
          << one.sizes() << one.strides() << other.sizes() << other.strides();
      overlapping += common ? 1 : 0;
    }
  }
  EXPECT_GT(overlapping, 100);
}

TEST(Coincide, OnlyTheSameElementsInTheSameOrderDo) {
  const auto tensor = at::arange(12);
  EXPECT_TRUE(coincide(tensor, tensor.view({3, 4})));
  EXPECT_FALSE(coincide(tensor, tensor.narrow(0, 0, 6)));
  EXPECT_FALSE(coincide(tensor.view({3, 4}), tensor.view({3, 4}).t()));
  EXPECT_FALSE(coincide(tensor, at::arange(12)));
}

}  // namespace
}  // namespace lockstep::comm
