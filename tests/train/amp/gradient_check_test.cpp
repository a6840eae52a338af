#include "lockstep/train/amp/gradient_check.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::amp {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", torch::nn::Linear(2, 2));
    second = register_module("second", torch::nn::Linear(2, 1));
  }
  // A gradient of NaN for what is below `factor`.
  void run(double factor) { (second(first(at::ones({1, 2})) * 1.0) * factor).sum().backward(); }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};

TEST(GradientCheck, NamesRankStepAndFirstParameter) {
  TwoLayers net;
  GradientCheck check(net, {.rank = 3});
  net.run(1);
  EXPECT_TRUE(check.check(6));
  net.run(std::nan(""));
  EXPECT_THAT([&] { static_cast<void>(check.check(7)); },
              ThrowsMessage<UsageError>(
                  HasSubstr("rank 3, step 7: the gradient of 'first.weight' is infinite or NaN")));
  net.run(1);
  EXPECT_TRUE(check.check(8)) << "what was found is forgotten, even if .grad still has it";
}

TEST(GradientCheck, FindsOneParameterAmongSoundOnes) {
  TwoLayers net;
  GradientCheck check(net, {.policy = NonFinitePolicy::kSkip});
  net.second->weight.detach().fill_(INFINITY);  // The gradient of what is below is infinite.
  net.run(1);
  EXPECT_FALSE(check.check(1));
  EXPECT_EQ(check.first(), "first.weight");
  EXPECT_EQ(GradientCheck::first_of(net), "first.weight");
}

struct One : torch::nn::Module {
  explicit One(const at::Tensor& parameter) { register_parameter("p", parameter); }
};

TEST(GradientCheck, FindsBadValuesOfEveryType) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat}) {
    for (const double bad : {1.0, std::nan(""), double{INFINITY}, -double{INFINITY}}) {
      One net(at::ones({5}, type));
      GradientCheck check(net, {.policy = NonFinitePolicy::kSkip});
      auto factor = at::ones({5}, type);
      factor[3].fill_(bad);
      const auto sum = (net.parameters()[0] * factor).sum();
      (sum.is_complex() ? at::real(sum) : sum).backward();
      EXPECT_EQ(check.check(1), bad == 1.0) << type << ' ' << bad;
    }
  }
}

TEST(GradientCheck, ALargeDoubleIsFiniteAlsoBesideOtherTypes) {
  One net(at::ones({2}, at::kDouble));
  net.register_parameter("q", at::ones({2}, at::kHalf));
  net.register_parameter("empty", at::ones({0}));
  GradientCheck check(net, {.policy = NonFinitePolicy::kSkip});
  const auto parameters = net.parameters();
  ((parameters[0] * 1e300).sum() + parameters[1].sum() + parameters[2].sum()).backward();
  EXPECT_TRUE(check.check(1));
  (parameters[0].sum() + (parameters[1] * INFINITY).sum()).backward();
  EXPECT_FALSE(check.check(2));
  EXPECT_EQ(check.first(), "q");
}

TEST(GradientCheck, WhoSkipsDecidesByTheAverages) {
  TwoLayers net;
  GradientCheck check(net, {.policy = NonFinitePolicy::kSkip});
  net.run(1);
  net.second->bias.mutable_grad().fill_(NAN);  // As another rank's NaN comes.
  EXPECT_FALSE(check.check(1));
  EXPECT_EQ(check.first(), "second.bias");
  net.zero_grad();
  net.run(1);
  EXPECT_TRUE(check.check(2));
  EXPECT_EQ(check.first(), std::nullopt);
}

// As a function whose backward() has nothing to say of an input.
struct NoGradient : torch::autograd::Function<NoGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& /*grads*/) {
    return {at::Tensor()};
  }
};

TEST(GradientCheck, AParameterWithoutAGradientIsSound) {
  for (const auto policy : {NonFinitePolicy::kAbort, NonFinitePolicy::kSkip}) {
    TwoLayers net;
    GradientCheck check(net, {.policy = policy});
    (NoGradient::apply(net.first->bias).sum() + net.second->bias.sum()).backward();
    ASSERT_FALSE(net.first->bias.grad().defined());
    EXPECT_TRUE(check.check(1));
  }
}

TEST(GradientCheck, AnOverflowThatTheScalerHandlesIsNoFault) {
  TwoLayers net;
  GradientCheck check(net);
  GradScaler scaler;
  net.run(INFINITY);
  EXPECT_TRUE(check.check(1, &scaler));
  EXPECT_TRUE(check.first().has_value());
  scaler.load_state_dict(GradScalerState{1, 2, 0.5, 2000, 0});
  net.run(INFINITY);
  EXPECT_THROW(static_cast<void>(check.check(2, &scaler)), UsageError)
      << "nothing left to back off";
}

}  // namespace
}  // namespace lockstep::amp
