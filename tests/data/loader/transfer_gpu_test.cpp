// Batches that are copied to a GPU while a graph is recorded. Runs where there is one.
#include <ATen/cuda/Sleep.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lockstep/data/loader/transfer.h"
#include "lockstep/device/graph.h"
#include "lockstep/device/stream.h"

namespace lockstep::data {
namespace {

const c10::Device kGpu("cuda:0");
// More than LibTorch has streams in a pool, which it deals out in turn.
constexpr int kBatches = 100;

// Each has a stream of its own.
std::vector<Transfer> transfers() {
  std::vector<Transfer> all;
  for (int i = 0; i < kBatches; ++i) {
    all.emplace_back(/*pin_memory=*/true, kGpu);
  }
  return all;
}

std::vector<Transferred> started_by_a_worker(const std::vector<Transfer>& all) {
  std::vector<Transferred> started;
  std::thread worker([&] {
    for (const Transfer& transfer : all) {
      const double number = static_cast<double>(started.size()) + 1;
      started.push_back(transfer.start({at::full({1 << 16}, number), at::full({1}, number)}));
    }
  });
  worker.join();
  return started;
}

TEST(TransferOnAGpu, ARecordingTakesNoCopyOfAWorker) {
  const auto all = transfers();
  const auto counter = at::zeros({1}, kGpu);
  const c10::StreamGuard recorded(device::side_stream(kGpu));
  std::vector<Transferred> started;
  device::Graph graph([&] {
    counter.add_(1);
    started = started_by_a_worker(all);
    counter.add_(1);
  });
  ASSERT_EQ(started.size(), static_cast<std::size_t>(kBatches));
  for (int i = 0; i < kBatches; ++i) {
    const Sample batch = Transfer::finish(std::move(started[static_cast<std::size_t>(i)]));
    EXPECT_TRUE(batch.data.eq(i + 1).all().item<bool>()) << "batch " << i;
    EXPECT_EQ(batch.target.item<double>(), i + 1.0);
  }
  graph.replay();
  graph.replay();
  EXPECT_EQ(counter.item<double>(), 4);
}

// Whichever streams are asked for in between.
TEST(TransferOnAGpu, CopiesOnNoStreamThatMayBeRecorded) {
  for (const Transfer& transfer : transfers()) {
    EXPECT_NE(transfer.stream(), device::side_stream(kGpu));
  }
}

constexpr std::int64_t kLarge = 1 << 24;  // Elements: 64 MiB take some milliseconds to copy.

// Keeps the GPU from going on with a stream for a second or two.
void hold_up(const c10::Stream& stream) {
  constexpr std::int64_t kCycles = std::int64_t{3} << 30;
  const c10::StreamGuard guard(stream);
  at::cuda::sleep(kCycles);
}

bool is_idle(const c10::Stream& stream) {
  c10::Event now(stream.device_type());
  now.record(stream);
  return now.query();
}

Sample batch_of(double number) { return {at::full({kLarge}, number), at::full({1}, number)}; }

TEST(TransferOnAGpu, CopiesWhileTheStepsStreamWorks) {
  const Transfer transfer(/*pin_memory=*/true, kGpu);
  const auto steps = device::current_stream(kGpu);
  const auto arrives = [&](double number) {
    const auto started = transfer.start(batch_of(number));
    const c10::StreamGuard copies(*transfer.stream());
    return started.batch.data.eq(number).all().item<bool>();
  };
  // Memory and kernels are there: to allocate or load some may wait for the GPU.
  EXPECT_TRUE(arrives(1));
  hold_up(steps);
  EXPECT_TRUE(arrives(2));
  EXPECT_FALSE(is_idle(steps)) << "the batch came after the step";
}

TEST(TransferOnAGpu, TheHostWaitsForNoCopy) {
  const Transfer transfer(/*pin_memory=*/true, kGpu);
  Transfer::finish(transfer.start(batch_of(0)));
  device::current_stream(kGpu).synchronize();
  hold_up(*transfer.stream());
  const auto started = transfer.start(batch_of(1));
  EXPECT_FALSE(is_idle(*transfer.stream())) << "the host waited for the copy";
  started.copied->synchronize();
  EXPECT_TRUE(started.batch.data.eq(1).all().item<bool>());
}

TEST(TransferOnAGpu, ABatchThatAStepStillReadsIsNotOverwritten) {
  const Transfer transfer(/*pin_memory=*/true, kGpu);
  const auto steps = device::current_stream(kGpu);
  auto batch = Transfer::finish(transfer.start(batch_of(1)));
  hold_up(steps);
  const auto read_late = batch.data.clone();
  batch = {};
  const auto next = transfer.start(batch_of(2));
  next.copied->synchronize();
  EXPECT_FALSE(is_idle(steps));
  EXPECT_TRUE(read_late.eq(1).all().item<bool>());
}

}  // namespace
}  // namespace lockstep::data
