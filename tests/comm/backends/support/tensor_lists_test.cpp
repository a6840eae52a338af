#include "lockstep/comm/backends/support/tensor_lists.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

namespace lockstep::comm {
namespace {

TEST(WithoutGaps, CopiesOnlyWhatHasGaps) {
  const auto whole = at::arange(6).view({2, 3});
  EXPECT_TRUE(without_gaps(whole).is_same(whole));
  EXPECT_FALSE(without_gaps(whole.t()).is_same(whole.t()));
  EXPECT_TRUE(without_gaps(whole.t()).is_contiguous());
}

TEST(CopyBack, HasNothingToDoForTensorsThatTravelledThemselves) {
  const std::vector<at::Tensor> tensors{at::arange(6).view({2, 3})};
  EXPECT_EQ(copy_back(without_gaps(tensors), tensors), nullptr);
}

TEST(CopyBack, WritesIntoTheGaps) {
  const auto whole = at::arange(6).view({2, 3});
  const auto column = whole.slice(1, 0, 1);
  const auto buffer = without_gaps(column);
  buffer.fill_(9);
  copy_back({buffer}, {column})();
  EXPECT_TRUE(whole.view({-1}).equal(at::tensor({9, 1, 2, 9, 4, 5}, at::kLong)));
}

TEST(Flattened, IsUndoneByUnflatten) {
  const std::vector<at::Tensor> tensors{at::arange(6).view({2, 3}), at::arange(6, 8)};
  EXPECT_EQ(element_counts(tensors), (std::vector<std::int64_t>{6, 2}));
  EXPECT_FALSE(same_shapes(tensors, tensors[0]));
  const auto flat = flattened(tensors);
  EXPECT_TRUE(flat.equal(at::arange(8)));
  const std::vector<at::Tensor> again{at::empty({2, 3}, at::kLong), at::empty({2}, at::kLong)};
  unflatten(flat, again);
  EXPECT_TRUE(again[0].equal(tensors[0]));
  EXPECT_TRUE(again[1].equal(tensors[1]));
}

TEST(TensorLists, AnIntegerAverageRoundsTowardsZero) {
  const auto sum = at::full({1}, -3, at::kLong);
  divide_in_place(sum, 2);
  EXPECT_EQ(sum.item<std::int64_t>(), -1);
}

TEST(TensorLists, AnOwnCopyIsNeverTheTensorItself) {
  const auto dense = at::full({4}, 1.0F);
  EXPECT_NE(own_copy(dense).data_ptr(), dense.data_ptr());
  const auto gaps = at::full({3, 4}, 1.0F).t();
  EXPECT_TRUE(own_copy(gaps).is_contiguous());
  put_back({at::full({4}, 2.0F)}, {dense});
  EXPECT_EQ(dense[3].item<float>(), 2);
}

}  // namespace
}  // namespace lockstep::comm
