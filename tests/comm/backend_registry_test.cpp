#include "lockstep/comm/backend_registry.h"

#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/local/backend.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(BackendRegistry, ParsesNamesPerDevice) {
  const auto parsed = BackendRegistry::built_in().parse("cpu:gloo");
  ASSERT_EQ(parsed.size(), 1U);
  EXPECT_EQ(parsed[0].first, c10::kCPU);
  EXPECT_EQ(parsed[0].second, "gloo");
}

TEST(BackendRegistry, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT([] { (void)BackendRegistry::built_in().parse("glou"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'glou'"), HasSubstr("gloo"))));
  EXPECT_THAT([] { (void)BackendRegistry::built_in().parse("tpu:gloo"); },
              ThrowsMessage<UsageError>(HasSubstr("'tpu' is no device")));
}

TEST(BackendRegistry, ABackendIsNotTakenForADeviceItDoesNotServe) {
  auto registry = BackendRegistry::built_in();
  registry.add("mine", {c10::kCUDA}, nullptr);
  EXPECT_THAT([&] { (void)registry.parse("cpu:mine"); },
              ThrowsMessage<UsageError>(HasSubstr("does not serve cpu")));
}

TEST(BackendRegistry, TwoThatAreNotOfC10dAreRefused) {
  auto registry = BackendRegistry::built_in();
  const auto local = [](const BackendRequest&) {
    return c10::make_intrusive<comm::LocalBackend>();
  };
  registry.add("one", {c10::kCPU}, local);
  registry.add("two", {c10::kCUDA}, local);
  EXPECT_THAT([&] { init_process_group({.backend = "cpu:one,cuda:two", .registry = registry}); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("'one' and 'two'"), HasSubstr("one of them for both devices"))));
}

TEST(BackendRegistry, ANameThatWasNotBuiltInSaysWhatItNeeds) {
  const BackendRegistry nothing;
  EXPECT_THAT([&] { (void)nothing.parse("mpi"); },
              ThrowsMessage<UsageError>(HasSubstr("built where Open MPI is installed")));
  EXPECT_THAT([&] { (void)nothing.parse("nccl"); },
              ThrowsMessage<UsageError>(HasSubstr("built with CUDA")));
}

TEST(BackendRegistry, RanksMayShareAGpuOverSharedMemoryAlone) {
  const auto registry = BackendRegistry::built_in();
  EXPECT_TRUE(registry.capabilities("shm").contains(Capability::kSharesGpus));
  EXPECT_FALSE(registry.capabilities("gloo").contains(Capability::kSharesGpus));
  EXPECT_FALSE(registry.capabilities("shm").contains(Capability::kRecordable));
  EXPECT_FALSE(registry.capabilities("shm").contains(Capability::kPremultipliesOnGpu));
}

TEST(BackendRegistry, ABackendJoinsWithoutTouchingItsCallers) {
  auto registry = BackendRegistry::built_in();
  registry.add("mine", {c10::kCPU},
               [](const BackendRequest&) { return c10::make_intrusive<comm::LocalBackend>(); });
  auto world = init_process_group({.backend = "mine", .registry = registry});
  EXPECT_TRUE(world.is_distributed());
  EXPECT_EQ(world.backend()->getBackendName(), "local");
}

}  // namespace
}  // namespace lockstep
