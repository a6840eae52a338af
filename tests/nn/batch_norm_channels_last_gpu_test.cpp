// Our kernels beside PyTorch's: in double precision for what is right, in half for what is usual.
#include "lockstep/nn/batch_norm_channels_last_gpu.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/device/graph.h"
#include "lockstep/device/stream.h"
#include "lockstep/nn/batch_norm.h"
#include "tests/nn/channels_last_layers.h"

namespace lockstep::nn {
namespace {

using testing::Case;
using ::testing::HasSubstr;
using testing::is_ours;
using testing::layer_of;
using testing::Results;
using testing::results_of;
using testing::values;
using torch::nn::BatchNormOptions;

// Relative to the value, plus a part of the largest one: differences of large numbers.
void expect_close(const at::Tensor& found, const at::Tensor& expected, double relative,
                  double of_largest, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const auto right = expected.to(at::kDouble);
  const auto error = (found.to(at::kDouble) - right).abs();
  const auto allowed = right.abs() * relative + right.abs().max() * of_largest;
  EXPECT_TRUE(error.le(allowed).all().item<bool>())
      << what << ": the largest error is " << error.max().item<double>() << ", the largest value "
      << right.abs().max().item<double>();
}

// A rounding to half precision: half a unit in the last place.
double rounding(at::ScalarType type) { return type == at::kHalf ? 1.0 / 2048 : 1.0 / 256; }

void expect_results(const Results& found, const Results& right, double half, double of_largest) {
  expect_close(found.output, right.output, half, of_largest, "output");
  expect_close(found.gradients[0], right.gradients[0], half, of_largest, "gradient of input");
  expect_close(found.gradients[1], right.gradients[1], 1e-4, of_largest, "gradient of weight");
  expect_close(found.gradients[2], right.gradients[2], 1e-4, of_largest, "gradient of bias");
  if (right.running_mean.defined()) {
    expect_close(found.running_mean, right.running_mean, 1e-5, 1e-6, "running mean");
    expect_close(found.running_var, right.running_var, 1e-4, 1e-6, "running variance");
  }
}

void compare(const Case& what, const BatchNormOptions& options, double of_largest = 2e-5) {
  torch::manual_seed(1);
  auto ours = layer_of<BatchNorm2d>(options);
  auto exact = layer_of<torch::nn::BatchNorm2d>(options, at::kDouble);
  auto usual = layer_of<torch::nn::BatchNorm2d>(options);
  for (int step = 0; step < 2; ++step) {
    const auto input = values(what);
    const auto gradient = values({.sizes = what.sizes, .type = what.type, .center = 0.1});
    const auto found = results_of(ours, input, gradient);
    ASSERT_TRUE(is_ours(found.output));
    EXPECT_EQ(found.output.scalar_type(), what.type);
    EXPECT_TRUE(found.output.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(found.gradients[0].scalar_type(), what.type);
    EXPECT_TRUE(found.gradients[0].is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(found.gradients[1].scalar_type(), at::kFloat);
    EXPECT_EQ(found.gradients[2].scalar_type(), at::kFloat);
    const auto half = rounding(what.type);
    expect_results(found, results_of(exact, input.to(at::kDouble), gradient), half, of_largest);
    // Both round, each in its own direction at worst; cuDNN's order of sums is not known.
    expect_results(found, results_of(usual, input, gradient), 2.1 * half, 10 * of_largest);
  }
  if (options.track_running_stats()) {
    EXPECT_EQ(ours->num_batches_tracked.template item<std::int64_t>(), 2);
  }
}

class ChannelsLastBatchNorm : public ::testing::TestWithParam<Case> {};

TEST_P(ChannelsLastBatchNorm, AgreesWithPyTorch) {
  compare(GetParam(), BatchNormOptions(GetParam().sizes[1]));
}

// The first and the last layer of ResNet-50, the fewest rows, and numbers that nothing divides.
INSTANTIATE_TEST_SUITE_P(Shapes, ChannelsLastBatchNorm,
                         ::testing::Values(Case{{4, 64, 112, 112}},
                                           Case{{4, 64, 112, 112}, at::kHalf},
                                           Case{{8, 2048, 7, 7}}, Case{{8, 2048, 7, 7}, at::kHalf},
                                           Case{{3, 8, 1, 1}}, Case{{3, 8, 1, 1}, at::kHalf},
                                           Case{{3, 72, 13, 11}}, Case{{3, 72, 13, 11}, at::kHalf},
                                           Case{{1, 24, 101, 97}},
                                           Case{{1, 24, 101, 97}, at::kHalf}, Case{{5, 144, 9, 7}},
                                           Case{{32, 256, 14, 14}}));

// Half-precision numbers around 1000 are 0.5 apart: a sum of squares in float32 would lose the
// variance.
TEST(ChannelsLastBatchNormLayer, KeepsASmallVarianceBesideALargeMean) {
  compare({.sizes = {4, 16, 31, 29}, .type = at::kHalf, .center = 1000, .spread = 1},
          BatchNormOptions(16), 5e-4);
}

TEST(ChannelsLastBatchNormLayer, GivesTheBiasOfAChannelThatIsConstant) {
  auto layer = layer_of<BatchNorm2d>(BatchNormOptions(8));
  const auto input = at::full({4, 8, 5, 5}, 3000.0, at::kCUDA)
                         .to(at::kBFloat16)
                         .contiguous(at::MemoryFormat::ChannelsLast);
  const auto output = layer(input);
  ASSERT_TRUE(is_ours(output));
  const auto expected = layer->bias.to(at::kBFloat16).view({1, 8, 1, 1}).expand_as(output);
  EXPECT_TRUE(output.equal(expected));
}

TEST(ChannelsLastBatchNormLayer, AveragesAllBatchesWithoutMomentum) {
  compare({.sizes = {4, 32, 9, 9}}, BatchNormOptions(32).momentum(std::nullopt));
}

TEST(ChannelsLastBatchNormLayer, TracksNothingIfItIsToldSo) {
  compare({.sizes = {4, 32, 9, 9}}, BatchNormOptions(32).track_running_stats(false));
}

TEST(ChannelsLastBatchNormLayer, TakesItsEps) {
  compare({.sizes = {4, 32, 9, 9}, .spread = 0.01}, BatchNormOptions(32).eps(0.1));
}

TEST(ChannelsLastBatchNormLayer, GivesThoseGradientsAloneThatAreWanted) {
  const auto input = values({.sizes = {4, 16, 9, 9}});
  auto whole = layer_of<BatchNorm2d>(BatchNormOptions(16));
  const auto gradient = values({.sizes = {4, 16, 9, 9}});
  const auto expected = results_of(whole, input, gradient).gradients;

  auto frozen = layer_of<BatchNorm2d>(BatchNormOptions(16));
  frozen->weight.requires_grad_(false);
  const auto leaf = input.detach().requires_grad_();
  frozen(leaf).backward(gradient);
  EXPECT_TRUE(leaf.grad().equal(expected[0]));
  EXPECT_FALSE(frozen->weight.grad().defined());
  EXPECT_TRUE(frozen->bias.grad().equal(expected[2]));

  auto first = layer_of<BatchNorm2d>(BatchNormOptions(16));  // First in a network: reads data.
  first(input).backward(gradient);
  EXPECT_TRUE(first->weight.grad().equal(expected[1]));
  EXPECT_TRUE(first->bias.grad().equal(expected[2]));
}

TEST(ChannelsLastBatchNormLayer, TakesGradientsOfAnyLayout) {
  const auto input = values({.sizes = {4, 16, 9, 9}});
  const auto gradient = values({.sizes = {4, 16, 9, 9}});
  auto layer = layer_of<BatchNorm2d>(BatchNormOptions(16));
  const auto expected = results_of(layer, input, gradient).gradients;
  const auto found = results_of(layer, input, gradient.contiguous()).gradients;
  const auto wide = at::zeros({4 * 16 * 81 + 1}, gradient.options().memory_format(std::nullopt));
  const auto shifted = wide.narrow(0, 1, 4 * 16 * 81).view({4, 9, 9, 16}).permute({0, 3, 1, 2});
  shifted.copy_(gradient);
  const auto of_shifted = results_of(layer, input, shifted).gradients;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(found[i].equal(expected[i])) << i;
    EXPECT_TRUE(of_shifted[i].equal(expected[i])) << i;
  }
}

TEST(ChannelsLastBatchNormLayer, KeepsTheInputsTypeUnderAutocast) {
  auto layer = layer_of<BatchNorm2d>(BatchNormOptions(16));
  const auto input = values({.sizes = {4, 16, 9, 9}});
  const auto expected = layer(input);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  const auto found = layer(input);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  ASSERT_TRUE(is_ours(found));
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(found.equal(expected));
}

TEST(ChannelsLastBatchNormLayer, CanBeDifferentiatedTwice) {
  const auto twice = [](auto layer, const at::Tensor& input) {
    const auto leaf = input.detach().requires_grad_();
    const auto loss = layer->forward(leaf).pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {leaf}, {}, {}, /*create_graph=*/true);
    return torch::autograd::grad({first[0].square().sum()}, {leaf}).front();
  };
  const auto input = values({.sizes = {4, 16, 9, 9}});
  const auto found = twice(layer_of<BatchNorm2d>(BatchNormOptions(16)), input);
  const auto expected = twice(layer_of<torch::nn::BatchNorm2d>(BatchNormOptions(16)), input);
  expect_close(found, expected, 0.05, 0.02, "second derivative");
}

TEST(ChannelsLastBatchNormLayer, RepeatsItsBits) {
  const Case what{.sizes = {8, 64, 56, 56}};
  const auto input = values(what);
  const auto gradient = values(what);
  auto one = layer_of<BatchNorm2d>(BatchNormOptions(64));
  auto other = layer_of<BatchNorm2d>(BatchNormOptions(64));
  const auto first = results_of(one, input, gradient);
  const auto second = results_of(other, input, gradient);
  EXPECT_TRUE(first.output.equal(second.output));
  for (std::size_t i = 0; i < first.gradients.size(); ++i) {
    EXPECT_TRUE(first.gradients[i].equal(second.gradients[i])) << i;
  }
  EXPECT_TRUE(first.running_mean.equal(second.running_mean));
  EXPECT_TRUE(first.running_var.equal(second.running_var));
}

// The tensors that our kernels do not take, and evaluation: LibTorch's bits.
void expect_torchs(const at::Tensor& input, bool training = true) {
  const BatchNormOptions options(input.size(1));
  auto ours = layer_of<BatchNorm2d>(options);
  auto usual = layer_of<torch::nn::BatchNorm2d>(options);
  ours->train(training);
  usual->train(training);
  const auto found = ours(input);
  EXPECT_FALSE(is_ours(found));
  EXPECT_TRUE(found.equal(usual(input)));
  EXPECT_TRUE(ours->running_var.equal(usual->running_var));
}

TEST(ChannelsLastBatchNormLayer, LeavesOtherTensorsToLibTorch) {
  expect_torchs(values({.sizes = {4, 12, 9, 9}}));
  expect_torchs(values({.sizes = {4, 16, 9, 9}}).contiguous());
  expect_torchs(values({.sizes = {4, 16, 9, 9}, .type = at::kFloat}));
  expect_torchs(values({.sizes = {4, 16, 9, 9}}), /*training=*/false);
}

TEST(ChannelsLastBatchNormLayer, LeavesErrorsToLibTorch) {
  auto layer = layer_of<BatchNorm2d>(BatchNormOptions(16));
  EXPECT_THAT([&] { layer(values({.sizes = {1, 16, 1, 1}})); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("more than 1 value per channel")));
  EXPECT_THAT([&] { layer(values({.sizes = {4, 8, 5, 5}})); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("running_mean")));
}

TEST(ChannelsLastBatchNormLayer, ARecordedStepHasTheBitsOfAnEagerOne) {
  const c10::StreamGuard guard(device::side_stream({at::kCUDA, 0}));
  const Case what{.sizes = {8, 64, 28, 28}};
  const std::vector<at::Tensor> batches{values(what), values(what), values(what)};
  const auto gradient = values(what);
  const auto input = values(what);
  auto eager = layer_of<BatchNorm2d>(BatchNormOptions(64));
  auto recorded = layer_of<BatchNorm2d>(BatchNormOptions(64));
  auto warm = layer_of<BatchNorm2d>(BatchNormOptions(64));
  results_of(warm, input, gradient);  // Kernels are loaded at their first use.
  Results found;
  device::Graph graph([&] { found = results_of(recorded, input, gradient); });
  for (const auto& batch : batches) {
    input.copy_(batch);
    graph.replay();
    const auto expected = results_of(eager, batch, gradient);
    EXPECT_TRUE(found.output.equal(expected.output));
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
      EXPECT_TRUE(found.gradients[i].equal(expected.gradients[i])) << i;
    }
    EXPECT_TRUE(recorded->running_mean.equal(eager->running_mean));
    EXPECT_TRUE(recorded->running_var.equal(eager->running_var));
    EXPECT_TRUE(recorded->num_batches_tracked.equal(eager->num_batches_tracked));
  }
}

// In processes of their own: the variable is read once.
bool is_ours_with(const char* value) {
  setenv("LOCKSTEP_BATCH_NORM", value, /*replace=*/1);
  return is_ours(layer_of<BatchNorm2d>(BatchNormOptions(16))(values({.sizes = {4, 16, 9, 9}})));
}

TEST(ChannelsLastBatchNormDeathTest, CanBeSwitchedOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(is_ours_with("torch") ? 1 : 0), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(is_ours_with("") ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(ChannelsLastBatchNormDeathTest, RefusesAnUnknownSwitch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        try {
          is_ours_with("cudnn");
        } catch (const std::exception& error) {
          fprintf(stderr, "%s\n", error.what());
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(3), "LOCKSTEP_BATCH_NORM is 'cudnn', expected 'torch'");
}

}  // namespace
}  // namespace lockstep::nn
