#include "lockstep/nn/recompute.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"

namespace lockstep::utils {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor leaf(std::int64_t rows) {
  return at::arange(rows * 4, at::kFloat).sin().view({rows, 4}).set_requires_grad(true);
}

struct Gradients {
  at::Tensor loss, input, weight;
};

// A block with a weight, dropout and something before and after it.
Gradients train(bool recomputed, bool input_needs_gradient = true) {
  torch::manual_seed(3);
  const auto input = leaf(3).detach().set_requires_grad(input_needs_gradient);
  const auto weight = leaf(4);
  const auto block = [&](const at::Tensor& x) {
    return at::dropout(at::linear(x, weight).tanh(), 0.5, true);
  };
  const auto before = input * 2;
  const auto output = recomputed ? checkpoint(block, before) : block(before);
  const auto loss = (output * at::rand({4})).square().sum();
  loss.backward();
  return {loss.detach(), input.grad(), weight.grad()};
}

TEST(Checkpoint, GivesTheSameBitsWithDropout) {
  const auto expected = train(false);
  const auto found = train(true);
  EXPECT_TRUE(found.loss.equal(expected.loss));
  EXPECT_TRUE(found.input.equal(expected.input));
  EXPECT_TRUE(found.weight.equal(expected.weight));
}

TEST(Checkpoint, ReachesParametersIfNoInputNeedsAGradient) {
  const auto found = train(true, false);
  EXPECT_FALSE(found.input.defined());
  EXPECT_TRUE(found.weight.equal(train(false, false).weight));
}

TEST(Checkpoint, RunsTwiceAndKeepsNothingInBetween) {
  int runs = 0;
  bool with_graph = true;
  const auto input = leaf(2);
  const auto output = checkpoint(
      [&](const at::Tensor& x) {
        ++runs;
        with_graph = at::GradMode::is_enabled();
        return x.exp();
      },
      input);
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(with_graph);
  output.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(with_graph);
  EXPECT_TRUE(input.grad().equal(input.detach().exp()));
}

TEST(Checkpoint, LeavesRandomNumbersAsTheyWere) {
  torch::manual_seed(5);
  checkpoint([](const at::Tensor& x) { return at::dropout(x, 0.5, true); }, leaf(2))
      .sum()
      .backward();
  const auto found = at::rand({3});
  torch::manual_seed(5);
  at::dropout(leaf(2), 0.5, true);
  EXPECT_TRUE(found.equal(at::rand({3})));
}

TEST(Checkpoint, TakesSeveralInputsAndOutputs) {
  const auto a = leaf(2);
  const auto b = leaf(2);
  const auto outputs = checkpoint(
      [](const Tensors& in) { return Tensors{in[0] * in[1], in[0] + in[1], in[1].sin()}; },
      Tensors{a, b});
  (outputs[0].sum() + 3 * outputs[1].sum()).backward();  // One has no gradient.
  EXPECT_TRUE(a.grad().equal(b.detach() + 3));
  EXPECT_TRUE(b.grad().equal(a.detach() + 3));
}

// As None in Python.
TEST(Checkpoint, PassesUndefinedTensorsThrough) {
  const auto a = leaf(2);
  const auto b = leaf(2);
  int calls = 0;
  const auto outputs = checkpoint(
      [&](const Tensors& in) {
        ++calls;
        EXPECT_EQ(in.size(), 3U);
        EXPECT_FALSE(in[1].defined());
        return Tensors{at::Tensor(), in[0] * in[2], at::Tensor()};
      },
      Tensors{a, at::Tensor(), b});
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_FALSE(outputs[0].defined());
  EXPECT_FALSE(outputs[2].defined());
  outputs[1].sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(a.grad().equal(b.detach()));
  EXPECT_TRUE(b.grad().equal(a.detach()));
  const auto nothing = [](const at::Tensor&) { return at::Tensor(); };
  EXPECT_FALSE(checkpoint(nothing, a).defined());
  EXPECT_FALSE(checkpoint(nothing, at::Tensor()).defined());
}

TEST(Checkpoint, RefusesOtherUndefinedTensorsInBackward) {
  int calls = 0;
  const auto outputs = checkpoint(
      [&](const Tensors& in) {
        return ++calls == 1 ? Tensors{in[0] * 2, at::Tensor()} : Tensors{at::Tensor(), in[0] * 2};
      },
      Tensors{leaf(2)});
  EXPECT_THAT([&] { outputs[0].sum().backward(); },
              ThrowsMessage<UsageError>(HasSubstr("other undefined tensors in backward")));
}

TEST(Checkpoint, RepeatsAutocast) {
  std::vector<at::ScalarType> types;
  const auto input = leaf(4);
  const auto weight = leaf(4);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto output = checkpoint(
      [&](const at::Tensor& x) {
        const auto result = at::linear(x, weight);
        types.push_back(result.scalar_type());
        return result;
      },
      input);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  output.sum().backward();
  EXPECT_THAT(types, ::testing::ElementsAre(at::kBFloat16, at::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Checkpoint, CallsTheFunctionAloneWithoutGradients) {
  const at::NoGradGuard no_grad;
  const auto output = checkpoint([](const at::Tensor& x) { return x.exp(); }, leaf(2));
  EXPECT_FALSE(output.requires_grad());
}

TEST(Checkpoint, RefusesGradientsThatAreAskedFor) {
  const auto input = leaf(2);
  const auto output = checkpoint([](const at::Tensor& x) { return x.exp(); }, input);
  EXPECT_THAT([&] { torch::autograd::grad({output.sum()}, {input}); },
              ThrowsMessage<UsageError>(HasSubstr("call backward()")));
}

TEST(Checkpoint, RefusesAFunctionThatChanges) {
  std::size_t size = 1;
  const auto outputs =
      checkpoint([&](const Tensors& in) { return Tensors(size, in[0].exp()); }, Tensors{leaf(2)});
  size = 2;
  EXPECT_THAT([&] { outputs[0].sum().backward(); },
              ThrowsMessage<UsageError>(HasSubstr("1 tensors in forward and 2 in backward")));
}

}  // namespace
}  // namespace lockstep::utils
