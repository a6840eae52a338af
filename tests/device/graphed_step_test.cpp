// What does not need a GPU; graph_test.cpp and tests/parallel/graphed_ddp_test.cpp have the rest.
#include "lockstep/device/graphed_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor twos() { return at::full({3}, 2.0); }

TEST(GraphedStep, OnTheCpuEveryCallRunsTheFunction) {
  int calls = 0;
  GraphedStep step(
      [&](const at::Tensor& one, const at::Tensor& other) {
        ++calls;
        return one * other;
      },
      {.device = at::kCPU, .warmup = 1});
  for (int i = 1; i <= 5; ++i) {
    const auto product = step(twos(), at::full({3}, static_cast<double>(i)));
    EXPECT_TRUE(product.equal(at::full({3}, 2.0 * i)));
    EXPECT_EQ(calls, i);
  }
  EXPECT_FALSE(step.is_recorded());
  EXPECT_TRUE(step.inputs().empty());
  EXPECT_THAT(step.why_eager(), HasSubstr("'cpu', which is no GPU"));
}

TEST(GraphedStep, ReturnsSeveralTensorsAsAVector) {
  GraphedStep step([](const at::Tensor& x) { return std::vector<at::Tensor>{x + 1, x + 2}; },
                   {.device = at::kCPU});
  EXPECT_TRUE(step(twos())[1].equal(at::full({3}, 4.0)));
}

TEST(GraphedStep, NumbersTheCallsOfItsFunction) {
  std::vector<std::uint64_t> numbers;
  GraphedStep step(
      [&](const at::Tensor& x) {
        numbers.push_back(device::StepRecorder::call_number());
        return x;
      },
      {.device = at::kCPU});
  EXPECT_EQ(device::StepRecorder::call_number(), 0U);
  step(twos());
  step(twos());
  EXPECT_NE(numbers[0], 0U);
  EXPECT_NE(numbers[1], 0U);
  EXPECT_NE(numbers[0], numbers[1]);
  EXPECT_EQ(device::StepRecorder::call_number(), 0U);
}

TEST(GraphedStep, WhatTheFunctionThrowsComesOut) {
  GraphedStep step([](const at::Tensor&) -> at::Tensor { throw UsageError("no such loss"); },
                   {.device = at::kCPU});
  EXPECT_THAT([&] { step(twos()); }, ThrowsMessage<UsageError>("no such loss"));
}

TEST(GraphedStep, ANegativeWarmupIsRefused) {
  EXPECT_THAT([] { device::StepRecorder({.device = at::kCPU, .warmup = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("warmup is -1")));
}

TEST(GraphedStep, SaysWhyThereAreNoGraphsHere) {
  const auto why = device::Graph::why_unavailable();
  if (why.empty()) {
    EXPECT_NO_THROW(device::StepRecorder({}));
  } else {
    EXPECT_THAT([] { device::StepRecorder({}); }, ThrowsMessage<UsageError>(HasSubstr(why)));
  }
}

}  // namespace
}  // namespace lockstep
