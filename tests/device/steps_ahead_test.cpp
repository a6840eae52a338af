// Runs where there is a GPU.
#include "lockstep/device/steps_ahead.h"

#include <ATen/cuda/Sleep.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "lockstep/device/stream.h"

namespace lockstep::device {
namespace {

const c10::Device kGpu("cuda:0");

// A step that takes a tenth of a second or two; returns its end.
c10::Event start_step() {
  at::cuda::sleep(std::int64_t{1} << 28);
  c10::Event end(kGpu.type());
  end.record(current_stream(kGpu));
  return end;
}

void expect_two_steps_ahead(const StepsAhead::Wait& wait) {
  StepsAhead ahead(kGpu, wait);
  std::vector<c10::Event> ends;
  for (int step = 0; step < 6; ++step) {
    ends.push_back(start_step());
    ahead.after_step();
    if (step >= 2) {
      EXPECT_TRUE(ends[ends.size() - 3].query()) << "step " << step;
    }
    EXPECT_FALSE(ends.back().query()) << "step " << step;
    if (step >= 1) {
      EXPECT_FALSE(ends[ends.size() - 2].query()) << "step " << step;
    }
  }
}

TEST(StepsAhead, TheHostIsTwoStepsAheadAndNoMore) { expect_two_steps_ahead(nullptr); }

TEST(StepsAhead, TheCallerMayWaitInItsOwnWay) {
  int waits = 0;
  expect_two_steps_ahead([&](const std::function<bool()>& is_done) {
    ++waits;
    while (!is_done()) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(waits, 4);
}

// It may find out that a step will never end.
TEST(StepsAhead, WhatTheWaitThrowsComesOut) {
  StepsAhead ahead(kGpu, [](const std::function<bool()>&) { throw std::runtime_error("rank 1"); });
  start_step();
  ahead.after_step();
  start_step();
  ahead.after_step();
  start_step();
  EXPECT_THROW(ahead.after_step(), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::device
