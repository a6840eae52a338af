// Runs where there is a GPU.
#include "lockstep/device/graph.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/device/graphed_step.h"

namespace lockstep::device {
namespace {

using ::testing::HasSubstr;

c10::Stream side_stream() {
  return c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool({at::kCUDA, 0});
}

at::Tensor random() { return at::rand({64}, at::kCUDA); }

TEST(Graph, ReplaysWhatWasRecordedAndRunsNothingBefore) {
  const c10::StreamGuard guard(side_stream());
  const auto counter = at::full({1}, 0.0, at::kCUDA);
  int host = 0;
  int after = 0;
  Graph graph([&] {
    EXPECT_NE(Graph::recording(), nullptr);
    Graph::recording()->after_replay([&] { ++after; });
    counter.add_(1);
    ++host;
  });
  EXPECT_EQ(Graph::recording(), nullptr);
  EXPECT_EQ(counter.item<double>(), 0);
  graph.replay();
  graph.replay();
  EXPECT_EQ(counter.item<double>(), 2);
  EXPECT_EQ(host, 1);
  EXPECT_EQ(after, 2);
}

TEST(Graph, DrawsTheRandomNumbersThatEagerWorkWouldHave) {
  const c10::StreamGuard guard(side_stream());
  torch::manual_seed(5);
  const std::vector<at::Tensor> expected{random(), random(), random()};
  torch::manual_seed(5);
  at::Tensor drawn;
  Graph graph([&] { drawn = random(); });
  for (const auto& each : expected) {
    graph.replay();
    EXPECT_TRUE(drawn.equal(each));
  }
}

TEST(Graph, AFailedRecordingLeavesNothingBehind) {
  const c10::StreamGuard guard(side_stream());
  torch::manual_seed(5);
  const std::vector<at::Tensor> expected{random(), random(), random()};
  torch::manual_seed(5);
  const auto ones = at::full({1}, 1.0, at::kCUDA);
  EXPECT_TRUE(random().equal(expected[0]));
  EXPECT_ANY_THROW(Graph([&] {
    random();
    ones.item<double>();  // Waits for the GPU.
  }));
  EXPECT_TRUE(random().equal(expected[1]));
  EXPECT_THROW(Graph([&] {
                 random();
                 throw std::runtime_error("the function's own");
               }),
               std::runtime_error);
  EXPECT_EQ(Graph::recording(), nullptr);
  EXPECT_TRUE(random().equal(expected[2]));
  at::Tensor sum;
  Graph graph([&] { sum = ones + 1; });
  graph.replay();
  EXPECT_EQ(sum.item<double>(), 2);
}

TEST(Graph, AFailedRecordingLeavesTheRandomNumbersOfEarlierGraphs) {
  const c10::StreamGuard guard(side_stream());
  torch::manual_seed(5);
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 5; ++i) {
    expected.push_back(random());
  }
  torch::manual_seed(5);
  at::Tensor drawn;
  Graph graph([&] { drawn = random(); });
  graph.replay();
  EXPECT_TRUE(drawn.equal(expected[0]));
  const auto ones = at::full({1}, 1.0, at::kCUDA);
  EXPECT_ANY_THROW(Graph([&] {
    random();
    ones.item<double>();  // Waits for the GPU.
  }));
  EXPECT_TRUE(random().equal(expected[1]));
  graph.replay();
  EXPECT_TRUE(drawn.equal(expected[2]));
  EXPECT_TRUE(random().equal(expected[3]));
  graph.replay();
  EXPECT_TRUE(drawn.equal(expected[4]));
}

TEST(Graph, AFailedRecordingGivesItsMemoryBack) {
  const c10::StreamGuard guard(side_stream());
  auto* const allocator = at::getDeviceAllocator(at::kCUDA);
  const auto reserved = [&] {
    allocator->emptyCache();
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return allocator->getDeviceStats(0).reserved_bytes[kAll].current;
  };
  const auto ones = at::full({1}, 1.0, at::kCUDA);
  const auto before = reserved();
  EXPECT_ANY_THROW(Graph([&] {
    at::full({1 << 28}, 1.0, at::kCUDA);  // 1 GiB.
    ones.item<double>();
  }));
  EXPECT_LT(reserved(), before + (1 << 28));
}

TEST(Graph, ARecordingCanBeEndedByWhatItUses) {
  const c10::StreamGuard guard(side_stream());
  const auto counter = at::full({1}, 0.0, at::kCUDA);
  Graph::Recordings seen;
  Graph graph([&] {
    seen = Graph::being_made();
    counter.add_(1);
  });
  EXPECT_TRUE(Graph::being_made().empty());
  ASSERT_EQ(seen.size(), 1U);
  graph.replay();
  Graph::end_recordings(seen, "the thing");
  EXPECT_THAT([&] { graph.replay(); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("it uses the thing, which was")));
  EXPECT_EQ(counter.item<double>(), 1);
}

TEST(GraphedStepOnAGpu, IsRecordedAfterWarmupAndReadsNewInputs) {
  int calls = 0;
  GraphedStep step(
      [&](const at::Tensor& x) {
        ++calls;
        return x * 2;
      },
      {.warmup = 2});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(step.is_recorded(), i > 2);
    // From the host, too: inputs are copied to the GPU.
    const auto input = at::full({3}, static_cast<double>(i), i % 2 == 0 ? at::kCUDA : at::kCPU);
    EXPECT_TRUE(step(input).cpu().equal(at::full({3}, 2.0 * i)));
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(step.why_eager(), "");
  step.inputs()[0].fill_(10);
  EXPECT_EQ(step(step.inputs()[0])[0].item<double>(), 20);
}

TEST(GraphedStepOnAGpu, InputsOfAnotherShapeRunEagerly) {
  int calls = 0;
  GraphedStep step(
      [&](const at::Tensor& x) {
        ++calls;
        return x.sum();
      },
      {.warmup = 1});
  for (const int rows : {4, 4, 3, 4, 4, 3}) {
    EXPECT_EQ(step(at::full({rows}, 1.0, at::kCUDA)).item<double>(), rows);
  }
  EXPECT_EQ(calls, 4);  // 4, 4 (recorded), 3 and 3.
}

TEST(GraphedStepOnAGpu, RecordsAgainWhenTold) {
  double factor = 2;
  GraphedStep step([&](const at::Tensor& x) { return x * factor; }, {.warmup = 1});
  const auto ones = at::full({1}, 1.0, at::kCUDA);
  step(ones);
  step(ones);
  factor = 3;
  EXPECT_EQ(step(ones).item<double>(), 2);
  step.record_again();
  EXPECT_EQ(step(ones).item<double>(), 3);
  EXPECT_TRUE(step.is_recorded());
}

TEST(GraphedStepOnAGpu, RecordingAgainDoesNotShortenTheWarmup) {
  int calls = 0;
  GraphedStep step(
      [&](const at::Tensor& x) {
        ++calls;
        return x * 2;
      },
      {.warmup = 2});
  const auto ones = at::full({1}, 1.0, at::kCUDA);
  step(ones);
  step.record_again();
  step(ones);
  EXPECT_FALSE(step.is_recorded());
  step(ones);
  EXPECT_TRUE(step.is_recorded());
  EXPECT_EQ(calls, 3);
}

TEST(GraphedStepOnAGpu, WhatCannotBeRecordedRunsEagerlyAndSaysWhy) {
  GraphedStep step([](const at::Tensor& x) { return x * x.sum().item<double>(); }, {.warmup = 1});
  for (int i = 1; i <= 4; ++i) {
    const auto input = at::full({2}, static_cast<double>(i), at::kCUDA);
    EXPECT_TRUE(step(input).equal(input * 2 * i));
  }
  EXPECT_FALSE(step.is_recorded());
  EXPECT_THAT(step.why_eager(), HasSubstr("captur"));
  EXPECT_THAT(step.why_eager(), ::testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace lockstep::device
