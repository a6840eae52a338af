#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/parallel/replica.h"
#include "tests/comm/waits_backend.h"

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

// The backend waits for all ranks in its first collective, without a limit.
TEST(Replica, NamesARankThatDoesNotWrapItsModule) {
  for (const bool init_sync : {true, false}) {
    EXPECT_NO_THROW(spawn(2, [&](int) {
      const auto world = init_process_group({.backend = "waits",
                                             .timeout = std::chrono::seconds(3),
                                             .registry = testing::registry_with_waits()});
      if (world.rank() == 1) {
        world.store()->wait({"rank 0 gave up"}, std::chrono::seconds(60));
        return;
      }
      const torch::nn::Linear net(2, 3);
      EXPECT_THAT([&] { Replica(*net, world, {.init_sync = init_sync}); },
                  ThrowsMessage<PeerError>(
                      HasSubstr("DistributedDataParallel on rank 0 of 2: timed out: rank 1 did not "
                                "begin the first collective on cpu within 3 s")));
      world.store()->set("rank 0 gave up", std::vector<std::uint8_t>{1});
      if (::testing::Test::HasFailure()) {
        throw std::runtime_error("expectations failed, see above");
      }
    }));
  }
}

}  // namespace
}  // namespace lockstep::parallel
