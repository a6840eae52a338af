#include "lockstep/train/run/gpu_monitor.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr const char* kGpu = "0000:3b:00.0";

class GpuMonitorTest : public ::testing::Test {
 protected:
  ~GpuMonitorTest() override { ::unsetenv("FAKE_NVML"); }
  static void let_fail(const char* what) { ::setenv("FAKE_NVML", what, 1); }
  static void expect_nothing(const GpuUse& use) {
    EXPECT_FALSE(use.utilization || use.memory_bytes || use.memory_total || use.watts);
  }
};

TEST_F(GpuMonitorTest, ReadsWhatTheDriverTells) {
  const GpuMonitor monitor(kGpu, FAKE_NVML);
  EXPECT_EQ(monitor.why_not(), "");
  const auto use = monitor.read();
  EXPECT_THAT(use.utilization, Optional(97));
  EXPECT_THAT(use.memory_bytes, Optional(3ULL << 30));
  EXPECT_THAT(use.memory_total, Optional(8ULL << 30));
  EXPECT_THAT(use.watts, Optional(612.5));
}

TEST_F(GpuMonitorTest, LeavesOutWhatAGpuDoesNotTell) {
  const GpuMonitor monitor(kGpu, FAKE_NVML);
  let_fail("power");
  EXPECT_EQ(monitor.read().watts, std::nullopt);
  EXPECT_THAT(monitor.read().utilization, Optional(97));
  let_fail("utilization");
  EXPECT_EQ(monitor.read().utilization, std::nullopt);
  let_fail("memory");
  EXPECT_EQ(monitor.read().memory_bytes, std::nullopt);
  EXPECT_EQ(monitor.read().memory_total, std::nullopt);
}

TEST_F(GpuMonitorTest, WithoutTheLibraryThereIsNothingAndNoError) {
  const GpuMonitor monitor(kGpu, "libno-such-nvml.so.1");
  expect_nothing(monitor.read());
  EXPECT_THAT(monitor.why_not(), HasSubstr("libno-such-nvml.so.1"));
}

TEST_F(GpuMonitorTest, AnotherLibraryIsNotUsed) {
  const GpuMonitor monitor(kGpu, "libm.so.6");
  expect_nothing(monitor.read());
  EXPECT_THAT(monitor.why_not(), HasSubstr("'libm.so.6' is no library of the NVIDIA driver"));
}

TEST_F(GpuMonitorTest, WithoutADriverOrSuchAGpuThereIsNothing) {
  expect_nothing(GpuMonitor("0000:00:00.0", FAKE_NVML).read());
  EXPECT_EQ(GpuMonitor("0000:00:00.0", FAKE_NVML).why_not(),
            "the GPU at '0000:00:00.0': Not Found");
  let_fail("init");
  const GpuMonitor monitor(kGpu, FAKE_NVML);
  expect_nothing(monitor.read());
  EXPECT_THAT(monitor.why_not(), HasSubstr("Driver Not Loaded"));
}

}  // namespace
}  // namespace lockstep::train
