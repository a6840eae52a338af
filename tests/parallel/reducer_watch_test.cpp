// Which backward passes a step has.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/autograd/backward_sink.h"
#include "tests/parallel/recording.h"

namespace lockstep::parallel {
namespace {

using recording::chain;
using recording::events;
using recording::parameters_of_sizes;
using recording::with_recorder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Its backward runs another backward, through a tensor that is no input in autograd's eyes.
struct Again : torch::autograd::Function<Again> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::vector<at::Tensor>& other) {
    context->saved_data["other"] = other.front();
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode on(true);
    context->saved_data["other"].toTensor().sum().backward();
    return {gradients[0], at::Tensor()};
  }
};

TEST(Reducer, TakesPartInABackwardInsideAnother) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    reducer->expect_backward({});
    // The inner pass ends with one gradient missing; the outer one brings it.
    Again::apply(parameters[0].tensor * 1, std::vector{parameters[1].tensor * 1}).sum().backward();
    EXPECT_THAT(events(), ElementsAre("sum 3"));
  });
}

TEST(Reducer, NamesTheParametersWithoutAGradientIfOnlyInnerBackwardsBroughtSome) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    reducer->expect_backward({});
    // No gradient of a parameter is made in the outer pass.
    auto output =
        Again::apply(at::ones({1}).requires_grad_() * 1, std::vector{parameters[1].tensor * 1});
    when_backward_passes({&output}, [&] { reducer->backward_passes_outputs_of(1); });
    EXPECT_THAT([&] { output.sum().backward(); },
                ThrowsMessage<UsageError>(HasSubstr("1 of 2 parameters got no gradient: 'p0'")));
  });
}

TEST(Reducer, AveragesIfAllGradientsComeFromInnerBackwards) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    int steps = 0;
    const auto reducer =
        std::make_shared<Reducer>(world, parameters, ReducerOptions{.first_limits = {1000}}, guard,
                                  [&](const auto&) { ++steps; });
    reducer->expect_backward({});
    auto output = Again::apply(at::ones({1}).requires_grad_() * 1,
                               std::vector{parameters[0].tensor.sum() * parameters[1].tensor});
    when_backward_passes({&output}, [&] { reducer->backward_passes_outputs_of(1); });
    output.sum().backward();
    EXPECT_THAT(events(), ElementsAre("sum 3"));
    EXPECT_EQ(steps, 1);
  });
}

TEST(Reducer, IgnoresABackwardThatIsForInputsOnly) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    reducer->expect_backward({});
    auto about_inputs = at::ones({1}).requires_grad_() * 2;
    when_backward_passes({&about_inputs}, [&] { reducer->backward_passes_outputs_of(1); });
    EXPECT_NO_THROW(about_inputs.sum().backward());
    chain(parameters).backward();
    EXPECT_THAT(events(), ElementsAre("sum 3"));
  });
}

TEST(Reducer, RejectsASecondGradientAfterTheFirstWasSent) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    reducer->expect_backward({});
    EXPECT_THAT(
        [&] {
          Again::apply(parameters[0].tensor * 1, std::vector{parameters[0].tensor * 1})
              .sum()
              .backward();
        },
        ThrowsMessage<UsageError>(AllOf(HasSubstr("'p0'"), HasSubstr("twice"))));
  });
}

}  // namespace
}  // namespace lockstep::parallel
