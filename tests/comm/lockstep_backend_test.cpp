#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

TEST(LockstepBackend, IsTheDefaultAndSharesMemoryOnOneHost) {
  testing::run_ranks(2, [](Group& world) {
    EXPECT_THAT(world.description(), ::testing::HasSubstr("lockstep"));
    EXPECT_EQ(world.backend()->getBackendName(), "shm");
  });
}

TEST(LockstepBackend, UsesGlooWhereTheRanksAreOnSeveralHosts) {
  EXPECT_NO_THROW(spawn(3, [](int rank) {
    ::setenv("LOCKSTEP_HOST_ID", rank == 2 ? "there" : "here", 1);
    const auto world = init_process_group();
    const auto tensor = at::full({1}, 1.0F);
    world.all_reduce(tensor).wait();
    if (world.backend()->getBackendName() != "gloo" || tensor.item<float>() != 3) {
      throw std::runtime_error("expected a sum over Gloo");
    }
  }));
}

}  // namespace
}  // namespace lockstep
