#include "lockstep/parallel/hooks/power_sgd_hook.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

std::vector<at::Tensor> parameters() { return {at::empty({20, 30}), at::empty({5})}; }

// A matrix of full rank and a bias.
at::Tensor gradients_of(int rank) { return at::arange(605, at::kFloat).mul(0.37 + rank).sin(); }

at::Tensor average_of(int ranks) {
  auto sum = gradients_of(0).div(ranks);
  for (int rank = 1; rank < ranks; ++rank) {
    sum += gradients_of(rank).div(ranks);
  }
  return sum;
}

at::Tensor run(const CommHook& hook, const at::Tensor& gradients) {
  GradBucket bucket({}, gradients.clone(), parameters());
  return hook(bucket).wait();
}

at::Tensor matrix_of(const at::Tensor& flat) { return flat.narrow(0, 0, 600).view({20, 30}); }

TEST(PowerSgd, AveragesBeforeItStarts) {
  run_ranks(2, [](Group& world) {
    const auto hook = power_sgd_hook(world, {.start_power_sgd_iter = 2});
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(run(hook, gradients_of(world.rank())).equal(average_of(2)));
    }
    EXPECT_FALSE(run(hook, gradients_of(world.rank())).equal(average_of(2)));
  });
}

TEST(PowerSgd, SendsMatricesOfLowRankAndTheRestAsItIs) {
  for (const std::int64_t rank : {1, 2, 4}) {
    run_ranks(2, [rank](Group& world) {
      const auto hook =
          power_sgd_hook(world, {.matrix_approximation_rank = rank, .start_power_sgd_iter = 2});
      at::Tensor result;
      for (int step = 0; step < 4; ++step) {
        result = run(hook, gradients_of(world.rank()));
      }
      EXPECT_LE(at::linalg_matrix_rank(matrix_of(result), 1e-4).item<int>(), rank);
      EXPECT_TRUE(at::allclose(result.narrow(0, 600, 5), average_of(2).narrow(0, 600, 5)));
    });
  }
}

TEST(PowerSgd, KeepsAMatrixOfLowRank) {
  run_ranks(3, [](Group& world) {
    const auto hook = power_sgd_hook(world, {.start_power_sgd_iter = 2});
    const auto low = at::cat(
        {at::outer(gradients_of(0).narrow(0, 0, 20), gradients_of(1).narrow(0, 0, 30)).view({-1}),
         gradients_of(2).narrow(0, 0, 5)});
    at::Tensor result;
    for (int step = 0; step < 3; ++step) {
      result = run(hook, low);
    }
    EXPECT_TRUE(at::allclose(result, low, 1e-4, 1e-5));
  });
}

// What is lost in one step comes in a later one: the sum of the results stays near that of the
// averages.
TEST(PowerSgd, FeedsErrorsBack) {
  const auto lost = [](bool feedback) {
    double difference = 0;
    const auto world = init_process_group();
    const auto hook = power_sgd_hook(
        world, {.start_power_sgd_iter = 2, .use_error_feedback = feedback, .warm_start = true});
    at::Tensor sum = at::zeros({605});
    for (int step = 0; step < 60; ++step) {
      sum += run(hook, gradients_of(0));
    }
    difference = (sum / 60 - gradients_of(0)).norm().item<double>();
    return difference;
  };
  EXPECT_LT(lost(true), 0.5 * lost(false));
}

TEST(PowerSgd, TreatsMatricesOfOneShapeTogether) {
  const auto world = init_process_group();
  const auto hook =
      power_sgd_hook(world, {.start_power_sgd_iter = 2, .batch_tensors_with_same_shape = true});
  const auto low = [](int i) {
    return at::outer(gradients_of(i).narrow(0, 0, 20), gradients_of(i + 1).narrow(0, 0, 30));
  };
  const auto twins = at::cat({low(0).view({-1}), low(2).view({-1})});
  at::Tensor result;
  for (int step = 0; step < 4; ++step) {
    GradBucket bucket({}, twins.clone(), {at::empty({20, 30}), at::empty({20, 30})});
    result = hook(bucket).wait();
  }
  EXPECT_TRUE(at::allclose(result, twins, 1e-4, 1e-5));
}

TEST(PowerSgd, RefusesOptionsThatCannotWork) {
  const auto world = init_process_group();
  EXPECT_THAT([&] { power_sgd_hook(world, {.matrix_approximation_rank = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("matrix_approximation_rank is 0")));
  EXPECT_THAT([&] { power_sgd_hook(world, {.start_power_sgd_iter = 1}); },
              ThrowsMessage<UsageError>(HasSubstr("expected 2 or more")));
}

}  // namespace
}  // namespace lockstep
