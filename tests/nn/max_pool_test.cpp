#include "lockstep/nn/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/pooling.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace lockstep::nn {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

struct Pooled {
  at::Tensor output;
  at::Tensor gradient;
};

template <class Layer>
Pooled pooled(Layer layer, const at::Tensor& input, const at::Tensor& gradient) {
  const auto leaf = input.detach().clone().requires_grad_();
  const auto output = layer(leaf);
  output.backward(gradient);
  return {.output = output.detach(), .gradient = leaf.grad()};
}

// Few different values, so that many are equal, and all that compare in a way of their own.
at::Tensor odd_values(at::IntArrayRef sizes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto values = at::tensor({-kInfinity, -1.0F, -0.0F, 0.0F, 1.0F, kInfinity, kNan, -kNan});
  return values.index({at::randint(values.numel(), sizes, at::kLong)}).contiguous();
}

TEST(MaxPool2d, HasTheBitsOfTorchs) {
  at::set_num_threads(1);
  const torch::nn::MaxPool2dOptions options(2);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{2, 16, 28, 28},
                                                                  {1, 1, 2, 2},
                                                                  {3, 2, 7, 5},
                                                                  {2, 3, 14, 14},
                                                                  {1, 2, 9, 66},
                                                                  {4, 1, 3, 2}}) {
    for (const auto& input : {at::randn(sizes), odd_values(sizes), at::randn(sizes).relu()}) {
      ASSERT_TRUE(has_own_kernels(input, options));
      const auto shape = torch::nn::MaxPool2d(options)(input).sizes().vec();
      const auto gradient = odd_values(shape);
      const auto own = pooled(MaxPool2d(options), input, gradient);
      const auto torchs = pooled(torch::nn::MaxPool2d(options), input, gradient);
      EXPECT_TRUE(same_bits(own.output, torchs.output)) << input.sizes();
      EXPECT_TRUE(same_bits(own.gradient, torchs.gradient)) << input.sizes();
    }
  }
}

TEST(MaxPool2d, TakesGradientsThatAreNotDense) {
  const auto input = at::randn({2, 3, 8, 8});
  const auto gradient = at::randn({4, 4, 3, 2}).permute({3, 2, 1, 0});
  EXPECT_TRUE(same_bits(pooled(MaxPool2d(2), input, gradient).gradient,
                        pooled(torch::nn::MaxPool2d(2), input, gradient).gradient));
}

TEST(MaxPool2d, LeavesAllElseToTorch) {
  at::set_num_threads(1);
  using Options = torch::nn::MaxPool2dOptions;
  const auto images = at::randn({2, 3, 9, 8});
  const auto check = [](const at::Tensor& input, const Options& options) {
    EXPECT_FALSE(has_own_kernels(input, options));
    EXPECT_TRUE(MaxPool2d(options)(input).equal(torch::nn::MaxPool2d(options)(input)));
  };
  check(images.to(at::kDouble), Options(2));
  check(images.to(at::kBFloat16), Options(2));
  check(images.contiguous(at::MemoryFormat::ChannelsLast), Options(2));
  check(images.transpose(2, 3), Options(2));
  check(images[0], Options(2));
  check(images.narrow(0, 0, 0), Options(2));
  check(images, Options(3));
  check(images, Options({2, 3}));
  check(images, Options(2).stride(1));
  check(images, Options(2).padding(1));
  check(images, Options(2).dilation(2));
  check(images, Options(2).ceil_mode(true));
  EXPECT_THROW(MaxPool2d(2)(at::randn({1, 1, 1, 8})), c10::Error);
  EXPECT_THROW(MaxPool2d(2)(at::Tensor()), c10::Error);
  at::set_num_threads(8);
  check(images, Options(2));
  at::set_num_threads(1);
}

TEST(MaxPool2d, CanBeDerivedTwice) {
  const auto second = [](auto layer) {
    const auto input = at::arange(32, at::kFloat).sin().view({1, 2, 4, 4}).requires_grad_();
    const auto output = layer(input * input).square().sum();
    const auto first = torch::autograd::grad({output}, {input}, {}, true, /*create_graph=*/true);
    return torch::autograd::grad({first.front().square().sum()}, {input}).front();
  };
  EXPECT_TRUE(second(MaxPool2d(2)).equal(second(torch::nn::MaxPool2d(2))));
}

TEST(MaxPool2d, NoticesAnInputThatWasChangedBeforeBackward) {
  const auto leaf = at::randn({1, 1, 4, 4}).requires_grad_();
  const auto input = leaf * 2;
  const auto output = MaxPool2d(2)(input);
  input.add_(1);
  EXPECT_THROW(output.sum().backward(), c10::Error);
}

TEST(MaxPool2d, StaysItselfWhenItIsCloned) {
  const torch::nn::Sequential net(MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(1)));
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->at<MaxPool2dImpl>(0).options.stride()->at(0), 1);
}

TEST(MaxPool2d, IsPrintedAsTorchs) {
  const auto text = [](const auto& layer) {
    std::ostringstream stream;
    stream << layer;
    return stream.str();
  };
  EXPECT_EQ(text(MaxPool2d(2)), text(torch::nn::MaxPool2d(2)));
}

}  // namespace
}  // namespace lockstep::nn
