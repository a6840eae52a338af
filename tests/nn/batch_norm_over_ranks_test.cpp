#include "lockstep/nn/batch_norm_over_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <numeric>

#include "lockstep/base/error.h"
#include "tests/nn/ranks_in_turn.h"

namespace lockstep::nn {
namespace {

using ::testing::HasSubstr;
using testing::run_in_threads;
using ::testing::ThrowsMessage;

constexpr std::int64_t kChannels = 3;

// Far from zero, where a variance from squares would be wrong.
at::Tensor batch(std::int64_t samples, at::ScalarType type) {
  return at::arange(samples * kChannels * 4, at::kDouble)
      .sin()
      .add(50)
      .view({samples, kChannels, 2, 2})
      .to(type);
}

struct Results {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, running_mean, running_var;
};

BatchNormOverRanks arguments(at::ScalarType type) {
  return {.weight = at::arange(1, kChannels + 1, type).set_requires_grad(true),
          .bias = at::arange(kChannels, type).set_requires_grad(true),
          .running_mean = at::zeros({kChannels}, type),
          .running_var = at::ones({kChannels}, type)};
}

// A loss whose gradient differs from value to value.
at::Tensor loss_of(const at::Tensor& output, const at::Tensor& input) {
  return (output.to(at::kDouble).tanh() * input.detach().to(at::kDouble).cos()).sum();
}

Results on_one_process(const at::Tensor& values) {
  auto with = arguments(values.scalar_type());
  const auto input = values.clone().set_requires_grad(true);
  const auto output = at::batch_norm(input, with.weight, with.bias, with.running_mean,
                                     with.running_var, true, 0.1, 1e-5, false);
  loss_of(output, input).backward();
  return {output.detach(),  input.grad(),      with.weight.grad(),
          with.bias.grad(), with.running_mean, with.running_var};
}

Results over_ranks(const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> outputs(parts.size());
  std::vector<at::Tensor> gradients(parts.size());
  std::mutex mutex;
  Results found;
  run_in_threads(static_cast<int>(parts.size()), [&](int rank, const auto& ranks) {
    const auto i = static_cast<std::size_t>(rank);
    auto with = arguments(parts[i].scalar_type());
    with.ranks = ranks;
    const auto input = parts[i].clone().set_requires_grad(true);
    const auto output = batch_norm_over_ranks(input, with);
    loss_of(output, input).backward();
    const std::lock_guard lock(mutex);
    outputs[i] = output.detach();
    gradients[i] = input.grad();
    const auto add = [](at::Tensor& sum, const at::Tensor& part) {
      sum = sum.defined() ? sum + part : part;
    };
    add(found.weight_gradient, with.weight.grad());
    add(found.bias_gradient, with.bias.grad());
    found.running_mean = with.running_mean;
    found.running_var = with.running_var;
  });
  found.output = at::cat(outputs);
  found.input_gradient = at::cat(gradients);
  return found;
}

void expect_same(const std::vector<std::int64_t>& sizes, at::ScalarType type, double tolerance) {
  const auto all = batch(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), type);
  const auto expected = on_one_process(all);
  const auto found = over_ranks(all.split_with_sizes(sizes));
  const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
    return a.scalar_type() == b.scalar_type() && at::allclose(a, b, tolerance, tolerance);
  };
  EXPECT_TRUE(close(found.output, expected.output));
  EXPECT_TRUE(close(found.input_gradient, expected.input_gradient));
  EXPECT_TRUE(close(found.weight_gradient, expected.weight_gradient));
  EXPECT_TRUE(close(found.bias_gradient, expected.bias_gradient));
  EXPECT_TRUE(close(found.running_mean, expected.running_mean));
  EXPECT_TRUE(close(found.running_var, expected.running_var));
}

TEST(BatchNormOverRanks, IsAsOneProcessOnTheWholeBatch) {
  expect_same({4, 4}, at::kDouble, 1e-10);
  expect_same({4, 4}, at::kFloat, 1e-4);
}

TEST(BatchNormOverRanks, WeighsUnequalBatchesByTheirSize) {
  expect_same({1, 5, 2}, at::kDouble, 1e-10);
}

TEST(BatchNormOverRanks, LetsEmptyBatchesTakePart) {
  expect_same({0, 3, 4}, at::kDouble, 1e-10);
  expect_same({5, 0}, at::kFloat, 1e-4);
}

TEST(BatchNormOverRanks, ComputesHalfPrecisionInFloat) {
  const auto whole = batch(6, at::kBFloat16);
  const auto found = over_ranks(whole.split_with_sizes({2, 4}));
  const auto expected = on_one_process(whole.to(at::kDouble));
  EXPECT_EQ(found.output.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(found.output.to(at::kDouble), expected.output, 1e-2, 2e-2));
}

TEST(BatchNormOverRanks, LeavesRunningStatisticsIfAllBatchesAreEmpty) {
  const auto found = over_ranks(batch(0, at::kFloat).split_with_sizes({0, 0}));
  EXPECT_TRUE(found.running_mean.equal(at::zeros({kChannels})));
  EXPECT_TRUE(found.running_var.equal(at::ones({kChannels})));
  EXPECT_TRUE(found.weight_gradient.equal(at::zeros({kChannels})));
}

TEST(BatchNormOverRanks, SumsInBackwardOnlyForAnInputThatNeedsAGradient) {
  for (const bool needed : {true, false}) {
    const int collectives = run_in_threads(2, [&](int, const auto& ranks) {
      auto with = arguments(at::kFloat);
      with.ranks = ranks;
      const auto input = batch(2, at::kFloat).set_requires_grad(needed);
      loss_of(batch_norm_over_ranks(input, with), input).backward();
    });
    EXPECT_EQ(collectives, needed ? 2 : 1);
  }
}

TEST(BatchNormOverRanks, NeedsTwoValuesPerChannel) {
  EXPECT_THAT(
      [] {
        run_in_threads(2, [](int rank, const auto& ranks) {
          auto with = arguments(at::kFloat);
          with.ranks = ranks;
          batch_norm_over_ranks(at::ones({rank, kChannels}), with);
        });
      },
      ThrowsMessage<UsageError>(HasSubstr("one value per channel")));
}

TEST(BatchNormOverRanks, RefusesToBeDifferentiatedTwice) {
  EXPECT_THAT(
      [] {
        run_in_threads(2, [](int, const auto& ranks) {
          auto with = arguments(at::kFloat);
          with.ranks = ranks;
          const auto input = batch(2, at::kFloat).set_requires_grad(true);
          const auto loss = loss_of(batch_norm_over_ranks(input, with), input);
          torch::autograd::grad({loss}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true);
        });
      },
      ThrowsMessage<UsageError>(HasSubstr("differentiated twice")));
}

TEST(BatchNormOverRanks, RefusesAnInputWithoutChannels) {
  EXPECT_THAT([] { batch_norm_over_ranks(at::ones({3}), {}); },
              ThrowsMessage<UsageError>(HasSubstr("1-dimensional")));
}

}  // namespace
}  // namespace lockstep::nn
