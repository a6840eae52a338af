#include "lockstep/parallel/replica.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/comm/init_process_group.h"

namespace lockstep::parallel {
namespace {

TEST(Replica, CountsBucketsAndBytes) {
  const torch::nn::Linear net(256, 256);
  const auto world = init_process_group();
  const Replica one(*net, world, {});
  EXPECT_EQ(one.stats().buckets, 1);
  EXPECT_EQ(one.stats().bytes, 4 * (256 * 256 + 256));
  const Replica two(*net, world, {.bucket_cap_mb_list = {0.1}});
  EXPECT_EQ(two.stats().buckets, 2);
}

TEST(Stats, OfNothingHideNothing) { EXPECT_EQ(DistributedDataParallelStats().hidden(), 0); }

TEST(Stats, HideWhatWasNotWaitedFor) {
  EXPECT_DOUBLE_EQ(
      (DistributedDataParallelStats{.communication_seconds = 4, .waiting_seconds = 1}).hidden(),
      0.75);
}

}  // namespace
}  // namespace lockstep::parallel
