// DistributedDataParallel::register_optimizer_in_backward() with parameters on a GPU.
#include <ATen/Functions.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/comm/ranks.h"

namespace lockstep::optim {
namespace {

constexpr double kOneEach = 0.05;  // MiB: less than a weight has.

torch::nn::Sequential net() {
  torch::manual_seed(1);
  torch::nn::Sequential layers(torch::nn::Linear(256, 256), torch::nn::ReLU(),
                               torch::nn::Linear(256, 256), torch::nn::ReLU(),
                               torch::nn::Linear(256, 10));
  layers->to(at::kCUDA);
  return layers;
}

at::Tensor batch_of(int rank, int step) {
  return at::arange(8 * 256, at::kCUDA).to(at::kFloat).add(100 * rank + step).sin().view({8, 256});
}

template <class Optimizer>
std::vector<at::Tensor> trained(const Group& world, const typename Optimizer::Options& options,
                                bool in_backward) {
  auto layers = net();
  DistributedDataParallel ddp(layers, world, {.bucket_cap_mb = kOneEach});
  Optimizer optimizer(ddp.parameters(), options);
  if (in_backward) {
    ddp.register_optimizer_in_backward(optimizer);
  }
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    ddp(batch_of(world.rank(), step)).square().sum().backward();
    if (!in_backward) {
      optimizer.step();
    }
  }
  c10::cuda::device_synchronize();
  return layers->parameters();
}

template <class Optimizer>
void expect_same_bits(int ranks, const char* backend, const typename Optimizer::Options& options) {
  testing::run_ranks(
      ranks,
      [&](Group& world) {
        const auto after = trained<Optimizer>(world, options, false);
        const auto inside = trained<Optimizer>(world, options, true);
        const auto untrained = net()->parameters();
        for (std::size_t i = 0; i < after.size(); ++i) {
          EXPECT_TRUE(inside[i].equal(after[i])) << "parameter " << i;
          EXPECT_FALSE(inside[i].equal(untrained[i])) << "parameter " << i;
        }
      },
      backend);
}

TEST(OptimizerInBackwardOnGpu, HasTheBitsOfAStepAfterIt) {
  for (const bool fused : {false, true}) {
    expect_same_bits<SGD>(1, "cpu:shm,cuda:nccl", {.lr = 1e-3, .momentum = 0.9, .fused = fused});
    expect_same_bits<SGD>(2, "cpu:shm,cuda:shm", {.lr = 1e-3, .momentum = 0.9, .fused = fused});
    expect_same_bits<AdamW>(1, "cpu:shm,cuda:nccl", {.lr = 1e-3, .fused = fused});
    expect_same_bits<AdamW>(2, "cpu:shm,cuda:shm", {.lr = 1e-3, .fused = fused});
  }
}

}  // namespace
}  // namespace lockstep::optim
