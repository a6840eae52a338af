#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend_registry.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::on_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ShmSparseSum, IsWhatGlooMakesOfTheSameTensors) {
  on_ranks(3, [](Group& world) {
    const auto gloo_world = world.store();
    auto gloo =
        BackendRegistry::built_in().make("gloo", {.store = gloo_world,
                                                  .rank = world.rank(),
                                                  .size = 3,
                                                  .timeout = std::chrono::seconds(30),
                                                  .connect_timeout = std::chrono::seconds(30)});
    // Rank 2 has nothing; rank 0 has one place twice.
    const auto dense = [&] {
      auto tensor = at::zeros({4, 2}, at::kFloat);
      if (world.rank() < 2) {
        tensor[world.rank()].fill_(world.rank() + 1.5);
        tensor[3].fill_(0.1);
      }
      return tensor;
    };
    auto mine = dense().to_sparse(1);
    auto theirs = dense().to_sparse(1);
    Tensors ours{mine};
    world.backend()->allreduce(ours, {})->wait();
    Tensors of_gloo{theirs};
    gloo->allreduce(of_gloo, {})->wait();
    EXPECT_TRUE(mine.is_coalesced());
    EXPECT_TRUE(mine.indices().equal(theirs.coalesce().indices()));
    EXPECT_TRUE(mine.to_dense().equal(theirs.to_dense()));
    world.barrier();
  });
}

TEST(ShmSparseSum, DifferentShapesAreAnErrorOnAllRanks) {
  on_ranks(2, [](Group& world) {
    Tensors tensors{at::zeros({world.rank() + 3, 2}).to_sparse()};
    EXPECT_THAT([&] { world.backend()->allreduce(tensors, {})->wait(); },
                ThrowsMessage<PeerError>(HasSubstr("sparse tensors of different shapes")));
  });
}

TEST(ShmSparseSum, AnOperationOtherThanSumIsRefused) {
  on_ranks(1, [](Group& world) {
    EXPECT_THAT([&] { all_reduce(world, at::zeros({3}).to_sparse(), c10d::ReduceOp::MAX); },
                ThrowsMessage<UsageError>(HasSubstr("the operation sum")));
  });
}

}  // namespace
}  // namespace lockstep::comm
