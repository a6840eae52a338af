// Runs where there is a GPU.
#include "lockstep/device/steps_ahead.h"

#include <ATen/cuda/Sleep.h>
#include <gtest/gtest.h>

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

TEST(StepsAhead, TheHostIsTwoStepsAheadAndNoMore) {
  StepsAhead ahead(kGpu);
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

}  // namespace
}  // namespace lockstep::device
