#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "lockstep/comm/backends/shm/backend.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::on_ranks;

// Large enough for several chunks.
TEST(ShmMoves, AnAllGatherMayBeInPlace) {
  on_ranks(3, [](Group& world) {
    constexpr std::int64_t kCount = 200000;
    auto output = at::full({3, kCount}, -1.0F);
    auto input = output[world.rank()];
    input.copy_(at::arange(kCount, at::kFloat) + static_cast<double>(world.rank()));
    world.backend()->_allgather_base(output, input, {})->wait();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(output[rank].equal(at::arange(kCount, at::kFloat) + static_cast<double>(rank)));
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
