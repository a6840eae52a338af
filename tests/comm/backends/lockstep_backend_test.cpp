#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

TEST(LockstepBackend, IsTheDefaultAndSharesMemoryOnOneHost) {
  testing::run_ranks(2, [](Group& world) {
    EXPECT_THAT(world.description(), ::testing::HasSubstr("lockstep"));
    EXPECT_EQ(world.backend()->getBackendName(), "lockstep");
    EXPECT_TRUE(world.can(Capability::kEverything));
  });
}

TEST(LockstepBackend, SharesMemoryInsideEachOfSeveralHosts) {
  testing::run_ranks(
      3,
      [](Group& world) {
        EXPECT_EQ(world.backend()->getBackendName(), "lockstep");
        const auto tensor = at::full({1}, 1.0F);
        world.all_reduce(tensor).wait();
        EXPECT_EQ(tensor.item<float>(), 3);
      },
      testing::kTwoHosts);
}

}  // namespace
}  // namespace lockstep
