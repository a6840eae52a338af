#include "lockstep/parallel/replica.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_refused(const torch::nn::Linear& module, const DistributedDataParallelOptions& options,
                    const char* why) {
  const auto world = init_process_group();
  EXPECT_THAT([&] { Replica(*module, world, options); }, ThrowsMessage<UsageError>(HasSubstr(why)));
}

TEST(Replica, RefusesWhatCannotWork) {
  const torch::nn::Linear net(2, 2);
  expect_refused(net, {.device_ids = {0, 1}}, "device_ids has 2 entries");
  expect_refused(net, {.device_ids = {0}}, "this one's parameters are on cpu");
  expect_refused(net, {.output_device = 0}, "this one's parameters are on cpu");
  expect_refused(net, {.bucket_cap_mb = 0.0}, "bucket cap");
  expect_refused(net, {.bucket_cap_mb = -1.0}, "bucket cap");
  expect_refused(net, {.bucket_cap_mb = 1.0, .bucket_cap_mb_list = {1.0}}, "both");
  expect_refused(net, {.parameters_to_ignore = {"weight", "bias"}}, "nothing to average");
  const torch::nn::Linear frozen(2, 2);
  for (auto& parameter : frozen->parameters()) {
    parameter.set_requires_grad(false);
  }
  expect_refused(frozen, {}, "nothing to average");
}

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
