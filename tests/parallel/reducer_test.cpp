#include "lockstep/parallel/reducer.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/local/backend.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string>& events() {
  static std::vector<std::string> list;
  return list;
}

// Writes down when an all-reduce is started.
class RecordingBackend : public comm::LocalBackend {
 public:
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    events().push_back("sum " + std::to_string(tensors[0].numel()));
    return LocalBackend::allreduce(tensors, options);
  }
};

std::vector<Parameter> parameters_of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<Parameter> parameters;
  for (const auto size : sizes) {
    parameters.push_back({.name = "p" + std::to_string(parameters.size()),
                          .owner = "Net",
                          .tensor = at::ones({size}).requires_grad_()});
  }
  return parameters;
}

// A reducer in a process of its own, as the only rank of a group that writes down what it is asked.
void with_recorder(const std::function<void(Group&, StepErrors&)>& body) {
  EXPECT_NO_THROW(spawn(1, [&](int) {
    auto registry = BackendRegistry::built_in();
    registry.add("recording", {c10::kCPU},
                 [](const BackendRequest&) { return c10::make_intrusive<RecordingBackend>(); });
    Group world = init_process_group({.backend = "recording", .registry = registry});
    StepErrors guard(world, "key");
    body(world, guard);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

const std::vector<std::size_t> kOneEach{1};  // Every gradient fills a bucket.

at::Tensor chain(const std::vector<Parameter>& parameters) {
  auto value = at::ones({1});
  for (const auto& parameter : parameters) {
    value = value * parameter.tensor.sum();
  }
  return value.sum();
}

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
