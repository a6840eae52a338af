// Two ranks that share one GPU, over shared memory. Runs where there is a GPU.
#include "lockstep/comm/backends/shm/gpu_order.h"

#include <ATen/cuda/Sleep.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kShared = "cpu:shm,cuda:shm";

at::Tensor on_gpu(double value, std::int64_t elements) {
  return at::full({elements}, value, at::kCUDA);
}

TEST(SharedGpu, RanksHaveTheSameDevice) {
  testing::run_ranks(
      2,
      [](Group& world) {
        EXPECT_EQ(world.device().type(), at::kCUDA);
        EXPECT_EQ(world.device().index(), world.local_rank() % static_cast<int>(at::getNumGPUs()));
      },
      kShared);
}

// The caller runs a collective of 4 bytes, and a thread of the group one of 4 MiB.
TEST(SharedGpu, SumsBroadcastsAndGathersTensorsOfAGpu) {
  testing::run_ranks(
      2,
      [](Group& world) {
        for (const std::int64_t elements : {1, 1 << 20}) {
          const auto sum = on_gpu(world.rank() + 1, elements);
          world.all_reduce(sum).wait();
          EXPECT_TRUE(sum.equal(on_gpu(3, elements)));
          const auto mine = on_gpu(world.rank(), elements);
          world.broadcast(mine, /*root=*/1).wait();
          EXPECT_TRUE(mine.equal(on_gpu(1, elements)));
          const std::vector<at::Tensor> all{on_gpu(7, elements), on_gpu(7, elements)};
          world.all_gather(all, on_gpu(world.rank(), elements)).wait();
          EXPECT_TRUE(all[0].equal(on_gpu(0, elements)) && all[1].equal(on_gpu(1, elements)));
          const auto at_root = on_gpu(world.rank() + 1, elements);
          world.reduce(at_root).wait();
          if (world.rank() == 0) {
            EXPECT_TRUE(at_root.equal(on_gpu(3, elements)));
          }
        }
      },
      kShared);
}

TEST(SharedGpu, ReadsATensorAfterWhatItsStreamWasGiven) {
  testing::run_ranks(
      2,
      [](Group& world) {
        const auto tensor = on_gpu(0, 1 << 20);
        world.all_reduce(tensor).wait();  // Pinned memory is allocated, which waits for the GPU.
        at::cuda::sleep(400'000'000);     // About 0.2 s.
        tensor.fill_(world.rank() + 1);
        world.all_reduce(tensor).wait();
        EXPECT_TRUE(tensor.equal(on_gpu(3, 1 << 20)));
      },
      kShared);
}

TEST(SharedGpu, SaysWhatSharedMemoryCannotDoForAGpu) {
  testing::run_ranks(
      2,
      [](Group& world) {
        const auto tensor = on_gpu(1, 2);
        EXPECT_THAT(
            [&] {
              world
                  .scatter(tensor, world.rank() == 0
                                       ? std::vector<at::Tensor>{tensor.clone(), tensor.clone()}
                                       : std::vector<at::Tensor>{})
                  .wait();
            },
            ThrowsMessage<UsageError>(HasSubstr("for a GPU's")));
      },
      kShared);
}

TEST(SharedGpu, BySharedMemorysNameAloneAGroupIsOnTheCpu) {
  testing::run_ranks(
      2, [](Group& world) { EXPECT_EQ(world.device(), at::Device(at::kCPU)); }, "shm");
}

}  // namespace
}  // namespace lockstep
