// Batch normalization over ranks whose batches are on a GPU: threads of one process.
#include <ATen/TensorOperators.h>
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gmock/gmock.h>

#include <chrono>

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
    step();
    c10::cuda::device_synchronize();
    if (rank == 0) {
      at::cuda::sleep(2'000'000'000);  // About a second, in the stream of both.
    }
    ranks->sum(at::zeros({1}, at::kCUDA));  // Both begin when it sleeps.
    const auto start = Clock::now();
    step();
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(200));
    c10::cuda::device_synchronize();
    EXPECT_GT(Clock::now() - start, std::chrono::milliseconds(300));
  });
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
