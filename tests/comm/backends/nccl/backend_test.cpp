// Runs where there is a GPU; one is enough for a world of one.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

TEST(Nccl, IsTheDefaultForCudaTensorsBesideSharedMemory) {
  testing::run_ranks(1, [](Group& world) {
    EXPECT_THAT(world.description(), ::testing::HasSubstr("cpu:lockstep,cuda:nccl"));
    EXPECT_EQ(world.backend(at::kCUDA)->getBackendName(), "nccl");
    EXPECT_EQ(world.backend(at::kCPU)->getBackendName(), "lockstep");
    EXPECT_TRUE(world.can(Capability::kRecordable, at::kCUDA));
    EXPECT_TRUE(world.can(Capability::kPremultipliesOnGpu, at::kCUDA));
    EXPECT_FALSE(world.can(Capability::kSharesGpus, at::kCUDA));
    EXPECT_EQ(world.device(), at::Device(at::kCUDA, 0));
    EXPECT_FALSE(world.gpu_ids().empty());
  });
}

TEST(Nccl, AGroupThatHasNoBackendForGpusIsOnTheCpu) {
  testing::run_ranks(
      1, [](Group& world) { EXPECT_EQ(world.device(), at::Device(at::kCPU)); }, "shm");
}

TEST(Nccl, RunsEveryCollective) {
  testing::run_ranks(1, [](Group& world) {
    const auto input = at::full({5}, 3.0, at::TensorOptions(world.device()));
    const auto output = at::full({5}, 0.0, at::TensorOptions(world.device()));
    const auto expect_copy = [&](Work work) {
      work.wait();
      EXPECT_TRUE(output.equal(input));
      output.zero_();
    };
    world.all_reduce(input, {.op = ReduceOp::kAvg}).wait();
    world.broadcast(input).wait();
    world.reduce(input).wait();
    EXPECT_EQ(input.sum().item<double>(), 15);
    expect_copy(world.all_gather({output}, input));
    expect_copy(world.gather({output}, input));
    expect_copy(world.scatter(output, {input}));
    expect_copy(world.reduce_scatter(output, {input}));
    expect_copy(world.all_to_all({output}, {input}));
    world.barrier();
  });
}

TEST(Nccl, AloneAGroupOfCudaWorksToo) {
  EXPECT_NO_THROW(spawn(1, [](int) {
    auto world = init_process_group({.backend = "nccl", .rank = 0, .world_size = 1});
    const auto tensor = at::full({2}, 1.0, at::TensorOptions(world.device()));
    world.all_reduce(tensor).wait();
    world.barrier();
    if (world.broadcast_bytes("x") != "x") {
      throw std::runtime_error("bytes went wrong");
    }
  }));
}

}  // namespace
}  // namespace lockstep
