// Batch normalization over ranks whose batches are on a GPU: threads of one process.
#include <ATen/TensorOperators.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <vector>

#include "lockstep/device/graph.h"
#include "lockstep/device/stream.h"
#include "lockstep/nn/batch_norm_over_ranks.h"
#include "tests/nn/ranks_in_turn.h"

namespace lockstep::nn {
namespace {

using Clock = std::chrono::steady_clock;

BatchNormOverRanks arguments_for(const RankExchangePointer& ranks) {
  BatchNormOverRanks arguments;
  arguments.running_mean = at::zeros({16}, at::kCUDA);
  arguments.running_var = at::ones({16}, at::kCUDA);
  arguments.ranks = ranks;
  return arguments;
}

TEST(BatchNormOverRanksOnGpu, NeverMakesTheHostWaitForTheGpu) {
  testing::run_in_threads(2, [](int rank, const RankExchangePointer& ranks) {
    const auto arguments = arguments_for(ranks);
    const auto input = at::randn({32, 16}, at::kCUDA);
    // Forward alone: one thread of autograd would run the backward of both ranks.
    const auto step = [&] { (void)batch_norm_over_ranks(input, arguments); };
    const auto meet = [&] { ranks->sum(at::zeros({1}, at::kCUDA)); };
    // Kernels are loaded at their first use, which waits for the GPU.
    at::cuda::sleep(1);
    step();
    meet();
    c10::cuda::device_synchronize();
    meet();  // Neither waits any more for what it launched.
    if (rank == 0) {
      at::cuda::sleep(2'000'000'000);  // About a second, in the stream of both.
    }
    meet();  // Both begin when it sleeps.
    const auto start = Clock::now();
    step();
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(200));
    c10::cuda::device_synchronize();
    EXPECT_GT(Clock::now() - start, std::chrono::milliseconds(300));
  });
}

// Two ranks with the same batch, in one thread: one thread of autograd runs the backward of a GPU,
// so ranks that are threads would wait for each other there.
class SameBatchTwice : public RankExchange {
 public:
  int size() const override { return 2; }
  int rank() const override { return 0; }
  at::Tensor gather(const at::Tensor& own) const override { return at::stack({own, own}); }
  void sum(const at::Tensor& tensor) const override { tensor.mul_(2); }
};

BatchNormOverRanks arguments_with_weights() {
  auto arguments = arguments_for(c10::make_intrusive<SameBatchTwice>());
  arguments.weight = at::ones({16}, at::kCUDA).requires_grad_();
  arguments.bias = at::zeros({16}, at::kCUDA).requires_grad_();
  return arguments;
}

TEST(BatchNormOverRanksOnGpu, BackwardDoesNotMakeTheHostWaitEither) {
  const auto arguments = arguments_with_weights();
  const auto input = at::randn({32, 16}, at::kCUDA).requires_grad_();
  const auto step = [&] { batch_norm_over_ranks(input, arguments).square().sum().backward(); };
  step();
  step();
  c10::cuda::device_synchronize();
  at::cuda::sleep(2'000'000'000);  // About a second.
  const auto start = Clock::now();
  step();
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(200));
  c10::cuda::device_synchronize();
  EXPECT_GT(Clock::now() - start, std::chrono::milliseconds(300));
}

// Output, gradients and running statistics.
std::vector<at::Tensor> computed(const at::Tensor& input, const BatchNormOverRanks& arguments) {
  const auto output = batch_norm_over_ranks(input, arguments);
  auto all =
      torch::autograd::grad({output.pow(3).sum()}, {input, arguments.weight, arguments.bias});
  all.push_back(output.detach());
  all.push_back(arguments.running_mean);
  all.push_back(arguments.running_var);
  return all;
}

TEST(BatchNormOverRanksOnGpu, ARecordedStepHasTheBitsOfAnEagerOne) {
  const c10::StreamGuard guard(device::side_stream({at::kCUDA, 0}));
  const std::vector<at::Tensor> batches{at::randn({32, 16}, at::kCUDA),
                                        at::randn({32, 16}, at::kCUDA) + 3};
  const auto input = at::zeros({32, 16}, at::kCUDA).requires_grad_();
  const auto give = [&](const at::Tensor& batch) {
    const c10::NoGradGuard no_grad;
    input.copy_(batch);
  };
  std::vector<std::vector<at::Tensor>> expected;
  const auto eager = arguments_with_weights();
  for (const auto& batch : batches) {
    give(batch);
    expected.emplace_back();
    for (const auto& tensor : computed(input, eager)) {
      expected.back().push_back(tensor.clone());
    }
  }
  const auto recorded = arguments_with_weights();
  std::vector<at::Tensor> found;
  device::Graph graph([&] { found = computed(input, recorded); });
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    give(batches[batch]);
    graph.replay();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].equal(expected[batch][i])) << "batch " << batch << ", tensor " << i;
    }
  }
}

// Whichever rank is empty, and although means are far from 0.
TEST(BatchNormOverRanksOnGpu, AnEmptyBatchChangesNothing) {
  const auto whole = at::randn({12, 16}, at::kCUDA) * 0.1 + 1000;
  auto mean = at::zeros({16}, at::kCUDA);
  auto var = at::ones({16}, at::kCUDA);
  const auto expected = at::batch_norm(whole, {}, {}, mean, var, true, 0.1, 1e-5, true);
  for (int empty = 0; empty < 3; ++empty) {
    testing::run_in_threads(3, [&](int rank, const RankExchangePointer& ranks) {
      const auto arguments = arguments_for(ranks);
      const bool is_first = rank == (empty == 0 ? 1 : 0);
      const auto begin = rank == empty ? 0 : is_first ? 0 : 5;
      const auto end = rank == empty ? 0 : is_first ? 5 : 12;
      const auto output = batch_norm_over_ranks(whole.slice(0, begin, end), arguments);
      EXPECT_TRUE(at::allclose(output, expected.slice(0, begin, end), 1e-2, 1e-2)) << empty;
      EXPECT_TRUE(at::allclose(arguments.running_mean, mean, 1e-5, 1e-5)) << empty;
      EXPECT_TRUE(at::allclose(arguments.running_var, var, 1e-3, 1e-3)) << empty;
    });
  }
}

TEST(BatchNormOverRanksOnGpu, OfEmptyBatchesAloneKeepsRunningStatistics) {
  testing::run_in_threads(2, [](int /*rank*/, const RankExchangePointer& ranks) {
    const auto arguments = arguments_for(ranks);
    EXPECT_EQ(batch_norm_over_ranks(at::zeros({0, 16}, at::kCUDA), arguments).numel(), 0);
    EXPECT_TRUE(arguments.running_mean.equal(at::zeros({16}, at::kCUDA)));
    EXPECT_TRUE(arguments.running_var.equal(at::ones({16}, at::kCUDA)));
  });
}

}  // namespace
}  // namespace lockstep::nn
