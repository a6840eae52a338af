#include "lockstep/parallel/buckets/communication.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using testing::run_ranks;

void averages_buckets(Group& world) {
  Communication communication(world);
  const std::vector<Parameter> parameters{{.name = "a", .tensor = at::ones({300'000})},
                                          {.name = "b", .tensor = at::ones({3})}};
  std::vector<GradientBucket> buckets;
  for (std::size_t i = 0; i < 2; ++i) {
    buckets.emplace_back(
        Bucket{.parameters = {i}}, parameters, GradientBucket::Mode::kViews,
        [&](std::int64_t elements, at::TensorOptions options) {
          return communication.allocate(elements, options);
        },
        communication.reduction_for({parameters[i]}));
  }
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& tensor = parameters[i].tensor;
      tensor.mutable_grad() = at::full_like(tensor, 2 * (world.rank() + 1));
      buckets[i].begin();
      buckets[i].put(0);
      communication.start(buckets[i]);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      communication.wait_for(i);
      EXPECT_TRUE(buckets[i].contents().eq(3).all().item<bool>());
    }
    const auto times = communication.finish();
    EXPECT_GT(times.running.count(), 0);
    EXPECT_GT(times.waiting.count(), 0);
  }
}

TEST(Communication, AveragesBucketsAndMeasuresIt) {
  run_ranks(2, averages_buckets, "shm");
  run_ranks(2, averages_buckets, "gloo");
}

TEST(Communication, AllocatesWhereTheBackendSumsInPlace) {
  run_ranks(
      2,
      [](Group& world) {
        const auto tensor = Communication(world).allocate(1000, at::kDouble);
        EXPECT_EQ(tensor.numel(), 1000);
        EXPECT_EQ(tensor.scalar_type(), at::kDouble);
        // From the arena: ordinary memory has another deleter.
        EXPECT_FALSE(tensor.storage().allocator());
      },
      "shm");
}

}  // namespace
}  // namespace lockstep::parallel
