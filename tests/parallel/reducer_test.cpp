#include "lockstep/parallel/reducer.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/parallel/recording.h"

namespace lockstep::parallel {
namespace {

using recording::chain;
using recording::events;
using recording::kOneEach;
using recording::parameters_of_sizes;
using recording::with_recorder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Reducer, StartsABucketBeforeTheLastGradientIsThere) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2, 3});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = kOneEach, .limits = kOneEach}, guard,
        [](const auto&) {});
    const GradientHooks hooks(parameters, [](std::size_t i, const at::Tensor&) {
      events().push_back("gradient " + std::to_string(i));
    });
    reducer->expect_backward({});
    chain(parameters).backward();
    // Our own hook comes first at each parameter.
    EXPECT_THAT(events(),
                ElementsAre("sum 3", "gradient 2", "sum 2", "gradient 1", "sum 1", "gradient 0"));
  });
}

TEST(Reducer, StartsBucketsInTheirOrderWhateverTheOrderOfGradients) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2, 3});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = kOneEach, .limits = kOneEach}, guard,
        [](const auto&) {});
    reducer->expect_backward({});
    const std::vector<Parameter> reversed(parameters.rbegin(), parameters.rend());
    chain(reversed).backward();
    EXPECT_THAT(events(), ElementsAre("sum 3", "sum 2", "sum 1"));
    // By the order that it has seen, from the next step on.
    events().clear();
    reducer->before_forward();
    reducer->expect_backward({});
    chain(reversed).backward();
    EXPECT_THAT(events(), ElementsAre("sum 1", "sum 2", "sum 3"));
  });
}

TEST(Reducer, PlansAnewOnceByTheLimitsForLater) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2, 3});
    int steps = 0;
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}, .limits = {16, 1000}}, guard,
        [&](const auto&) { ++steps; });
    for (int step = 0; step < 3; ++step) {
      reducer->before_forward();
      reducer->expect_backward({});
      chain(parameters).backward();
    }
    EXPECT_THAT(events(), ElementsAre("sum 6", "sum 5", "sum 1", "sum 5", "sum 1"));
    EXPECT_EQ(steps, 3);
  });
}

TEST(Reducer, NamesTheParametersWithoutAGradientAtTheEndOfThatBackward) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2, 3});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    reducer->expect_backward({});
    EXPECT_THAT([&] { (parameters[1].tensor * 2).sum().backward(); },
                ThrowsMessage<UsageError>(
                    AllOf(HasSubstr("on rank 0 of 1: 2 of 3 parameters got no gradient: 'p0' "
                                    "(Net), 'p2' (Net)"),
                          HasSubstr("find_unused_parameters"))));
    // Other ranks may have taken the step: this one must not go on as if nothing had been.
    EXPECT_THAT([&] { reducer->before_forward(); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("2 of 3 parameters got no gradient"),
                                                HasSubstr("out of step"))));
  });
}

TEST(Reducer, LeavesBackwardsAloneThatItDoesNotExpect) {
  with_recorder([](Group& world, StepErrors& guard) {
    const auto parameters = parameters_of_sizes({1, 2});
    const auto reducer = std::make_shared<Reducer>(
        world, parameters, ReducerOptions{.first_limits = {1000}}, guard, [](const auto&) {});
    (parameters[1].tensor * 2).sum().backward();
    EXPECT_TRUE(events().empty());
    // What was accumulated travels with the next.
    reducer->expect_backward({});
    chain(parameters).backward();
    EXPECT_THAT(events(), ElementsAre("sum 3"));
    EXPECT_TRUE(parameters[1].tensor.grad().equal(at::full({2}, 3.F)));
  });
}

}  // namespace
}  // namespace lockstep::parallel
