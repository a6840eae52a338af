#include "lockstep/parallel/autograd/gradient_hooks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Parameter> parameters_of(std::size_t count) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < count; ++i) {
    parameters.push_back({.name = std::to_string(i), .tensor = at::ones({2}).requires_grad_()});
  }
  return parameters;
}

TEST(GradientHooks, RunWhenAGradientIsAccumulated) {
  const auto parameters = parameters_of(3);
  std::vector<std::size_t> seen;
  const GradientHooks hooks(parameters, [&](std::size_t i, const at::Tensor& made) {
    EXPECT_TRUE(made.is_alias_of(parameters[i].tensor.grad()));
    EXPECT_TRUE(parameters[i].tensor.grad().defined());
    seen.push_back(i);
  });
  auto product = parameters[0].tensor * 2;
  product = product * parameters[2].tensor;
  product.sum().backward();
  EXPECT_THAT(seen, ElementsAre(2, 0));
}

TEST(GradientHooks, EndWithTheirOwner) {
  const auto parameters = parameters_of(1);
  int calls = 0;
  {
    const GradientHooks hooks(parameters, [&](std::size_t, const at::Tensor&) { ++calls; });
    parameters[0].tensor.sum().backward();
  }
  parameters[0].tensor.sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(GradientHooks, PassTheirErrorsOnToBackward) {
  const auto parameters = parameters_of(1);
  const GradientHooks hooks(
      parameters, [](std::size_t, const at::Tensor&) { throw std::invalid_argument("mine"); });
  EXPECT_THROW(parameters[0].tensor.sum().backward(), std::invalid_argument);
}

TEST(GradientHooks, FindTheParametersThatNoOutputDependsOn) {
  const auto parameters = parameters_of(4);
  const GradientHooks hooks(parameters, [](std::size_t, const at::Tensor&) {});
  const auto one = parameters[0].tensor * parameters[2].tensor;
  EXPECT_THAT(hooks.unreachable_from({one}), ElementsAre(1, 3));
  EXPECT_THAT(hooks.unreachable_from({one, parameters[3].tensor * 2}), ElementsAre(1));
  EXPECT_THAT(hooks.unreachable_from({one, parameters[1].tensor, parameters[3].tensor}), IsEmpty());
  EXPECT_THAT(hooks.unreachable_from({at::Tensor(), at::ones({1})}), ElementsAre(0, 1, 2, 3));
}

TEST(Backward, CallsBackWhenAllGradientsAreThere) {
  const auto parameters = parameters_of(2);
  std::vector<int> events;
  const GradientHooks hooks(parameters, [&](std::size_t i, const at::Tensor&) {
    if (events.empty()) {
      when_backward_is_done([&] { events.push_back(backward_is_nested() ? -2 : -1); });
    }
    events.push_back(static_cast<int>(i));
  });
  (parameters[0].tensor * parameters[1].tensor).sum().backward();
  EXPECT_THAT(events, ElementsAre(::testing::_, ::testing::_, -1));
}

// Runs another backward inside its own, and tells what it found out there.
struct Nested : torch::autograd::Function<Nested> {
  using Events = std::vector<std::string>;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            Events* events) {
    context->saved_data["events"] = reinterpret_cast<std::int64_t>(events);
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto& events = *reinterpret_cast<Events*>(context->saved_data["events"].toInt());
    const at::AutoGradMode on(true);
    auto inner = at::ones({2}).requires_grad_();
    const auto outer_pass = current_backward();
    const auto pass = [&] { return current_backward() == outer_pass ? "outer" : "inner"; };
    events.emplace_back(pass());
    const GradientHooks hooks(
        {{.name = "inner", .tensor = inner}}, [&](std::size_t, const at::Tensor&) {
          events.emplace_back(pass());
          when_backward_is_done(
              [&] { events.emplace_back(backward_is_nested() ? "nested end" : "end"); });
        });
    (inner * 2).sum().backward();
    events.emplace_back(pass());
    return {gradients[0], at::Tensor()};
  }
};

TEST(Backward, KnowsThatItRunsInsideAnother) {
  auto input = at::ones({2}).requires_grad_();
  Nested::Events events;
  Nested::apply(input, &events).sum().backward();
  EXPECT_THAT(events, ElementsAre("outer", "inner", "nested end", "outer"));
}

TEST(GradientHooks, FollowAParameterOrNameIt) {
  auto parameters = parameters_of(2);
  int calls = 0;
  GradientHooks hooks(parameters, [&](std::size_t, const at::Tensor&) { ++calls; });
  auto& tensor = parameters[1].tensor;
  const auto earlier = tensor.sum();  // Its graph has the accumulator of now.
  tensor.set_data(at::ones({2}));
  EXPECT_EQ(hooks.follow(), "");
  tensor.set_data(at::ones({2}, at::kDouble));
  EXPECT_EQ(hooks.follow(), "'1' is CPUDoubleType, was CPUFloatType");
  tensor.set_data(at::ones({2}));  // And back: autograd has another accumulator now.
  tensor.sum().backward();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(hooks.follow(), "");
  tensor.sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(hooks.follow(), "");
  tensor.sum().backward();
  EXPECT_EQ(calls, 2);
  earlier.backward();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lockstep::parallel
