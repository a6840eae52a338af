#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/parallel/replica.h"

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
  expect_refused(net, {.parameters_to_ignore = {"weight", "bias"}}, "nothing to average");
  const torch::nn::Linear frozen(2, 2);
  for (auto& parameter : frozen->parameters()) {
    parameter.set_requires_grad(false);
  }
  expect_refused(frozen, {}, "nothing to average");
}

}  // namespace
}  // namespace lockstep::parallel
