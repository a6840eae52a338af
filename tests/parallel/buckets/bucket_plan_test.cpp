#include "lockstep/parallel/buckets/bucket_plan.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::size_t> kSmall{10, 100};

std::vector<std::vector<std::size_t>> members(const std::vector<Bucket>& plan) {
  std::vector<std::vector<std::size_t>> lists;
  for (const auto& bucket : plan) {
    lists.push_back(bucket.parameters);
  }
  return lists;
}

TEST(BucketPlan, ClosesABucketThatHasReachedItsLimit) {
  const std::vector<GradientInfo> gradients{{.bytes = 4}, {.bytes = 4}, {.bytes = 4}, {.bytes = 4}};
  EXPECT_THAT(members(plan_buckets(gradients, kSmall)),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
}

TEST(BucketPlan, KindsNeverShareABucket) {
  const std::vector<GradientInfo> gradients{{.bytes = 1, .kind = 0}, {.bytes = 1, .kind = 1}};
  EXPECT_THAT(members(plan_buckets(gradients, kSmall)),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(BucketPlan, KeepsTheOrderInWhichGradientsBecameReady) {
  const std::vector<GradientInfo> gradients{{.bytes = 10}, {.bytes = 1}, {.bytes = 1}};
  const std::vector<std::size_t> order{2, 0, 1};
  EXPECT_THAT(members(plan_buckets_in_order(gradients, order, kSmall)),
              ElementsAre(ElementsAre(2), ElementsAre(0, 1)));
}

TEST(BucketPlan, NoLimitIsAnError) {
  EXPECT_THAT([] { (void)plan_buckets({}, {}); },
              ThrowsMessage<UsageError>(HasSubstr("no bucket limit")));
  const std::vector<std::size_t> order{0};
  EXPECT_THROW((void)plan_buckets_in_order({}, order, kSmall), UsageError);
}

// A random model, as c10d and as we see it.
struct Model {
  explicit Model(unsigned seed) : random(seed) {
    const std::vector<at::ScalarType> dtypes{at::kFloat, at::kDouble, at::kHalf};
    const std::size_t count = random() % 40 + 1;
    const unsigned kinds = random() % 3 + 1;
    for (std::size_t i = 0; i < count; ++i) {
      const int kind = static_cast<int>(random() % kinds);
      tensors.push_back(at::empty({static_cast<std::int64_t>(random() % 200)},
                                  dtypes[static_cast<std::size_t>(kind)]));
      sparse.push_back(random() % 10 == 0);
      gradients.push_back({tensors.back().nbytes(), kind, sparse.back()});
    }
    for (std::size_t i = 0; i < random() % 3 + 1; ++i) {
      limits.push_back(random() % 2000 + 1);
    }
  }

  std::mt19937 random;
  std::vector<at::Tensor> tensors;
  std::vector<bool> sparse;
  std::vector<GradientInfo> gradients;
  std::vector<std::size_t> limits;
};

TEST(BucketPlan, IsWhatC10dComputesForAThousandModels) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Model model(seed);
    const auto [theirs, limits] =
        c10d::compute_bucket_assignment_by_size(model.tensors, model.limits, model.sparse);
    const auto ours = plan_buckets(model.gradients, model.limits);
    ASSERT_EQ(members(ours), theirs) << "model " << seed;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i].limit, limits[i]) << "model " << seed << ", bucket " << i;
    }
  }
}

// c10d leaves those that were never closed in the order of a hash table, and rank 0's order is
// broadcast: what is compared are the buckets, and the order of those of one kind.
TEST(BucketPlan, IsWhatC10dComputesForGradientsInAnyOrder) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Model model(seed);
    std::vector<std::int64_t> order(model.tensors.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), model.random);
    const std::vector<std::size_t> ours_order(order.begin(), order.end());
    for (std::size_t i = 0; i < ours_order.size(); ++i) {
      model.gradients[i].sparse = model.sparse[ours_order[i]];  // By parameter, as c10d has it.
    }
    const auto theirs = std::get<0>(
        c10d::compute_bucket_assignment_by_size(model.tensors, model.limits, model.sparse, order));
    const auto ours = members(plan_buckets_in_order(model.gradients, ours_order, model.limits));
    ASSERT_THAT(ours, ::testing::UnorderedElementsAreArray(theirs)) << "model " << seed;
    if (std::all_of(model.gradients.begin(), model.gradients.end(),
                    [&](const GradientInfo& info) { return info.kind == 0; })) {
      ASSERT_EQ(ours, theirs) << "model " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep::parallel
