#include "lockstep/parallel/autograd/backward_sink.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/parallel/autograd/gradient_hooks.h"

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;

TEST(BackwardSink, ChangesNoValueAndNoGradient) {
  auto weight = at::ones({3}).requires_grad_();
  auto output = weight * 5;
  const auto before = output;
  pass_through_sink({&output}, [] {});
  EXPECT_TRUE(output.equal(before));
  EXPECT_FALSE(output.is_same(before));
  output.sum().backward();
  EXPECT_TRUE(weight.grad().equal(at::full({3}, 5.F)));
}

TEST(BackwardSink, TellsThatBackwardBeginsBeforeAnyGradient) {
  auto weight = at::ones({3}).requires_grad_();
  std::vector<int> events;
  const GradientHooks hooks({{.name = "weight", .tensor = weight}},
                            [&](std::size_t, const at::Tensor&) { events.push_back(1); });
  auto output = weight * 5;
  pass_through_sink({&output}, [&] { events.push_back(0); });
  output.sum().backward();
  EXPECT_THAT(events, ElementsAre(0, 1));
}

TEST(BackwardSink, RunsTheHooksBehindAnOutputThatTheLossDoesNotUse) {
  auto used = at::ones({3}).requires_grad_();
  auto unused = at::ones({3}).requires_grad_();
  std::vector<std::size_t> hooked;
  const GradientHooks hooks(
      {{.name = "used", .tensor = used}, {.name = "unused", .tensor = unused}},
      [&](std::size_t i, const at::Tensor&) { hooked.push_back(i); });
  auto first = used * 2;
  auto second = unused * 2;
  pass_through_sink({&first, &second}, [] {});
  first.sum().backward();
  EXPECT_THAT(hooked, ::testing::UnorderedElementsAre(0, 1));
  EXPECT_FALSE(unused.grad().defined());
}

TEST(BackwardSink, LeavesOutputsWithoutHistoryAlone) {
  auto constant = at::ones({3});
  at::Tensor undefined;
  const auto before = constant;
  pass_through_sink({&constant, &undefined}, [] {});
  EXPECT_TRUE(constant.is_same(before));
}

}  // namespace
}  // namespace lockstep::parallel
