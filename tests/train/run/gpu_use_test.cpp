#include "lockstep/train/run/gpu_use.h"

#include <gmock/gmock.h>

namespace lockstep::train {
namespace {

using ::testing::Optional;

TEST(MeanGpuUse, EachValueIsTheMeanOfTheMomentsThatHaveIt) {
  MeanGpuUse uses;
  uses.add({.utilization = 90, .memory_bytes = 100, .memory_total = 1000, .watts = 400});
  uses.add({.utilization = 95, .memory_bytes = 300, .memory_total = 1000, .watts = std::nullopt});
  const auto mean = uses.mean();
  ASSERT_TRUE(mean);
  EXPECT_THAT(mean->utilization, Optional(93));
  EXPECT_THAT(mean->memory_bytes, Optional(200U));
  EXPECT_THAT(mean->memory_total, Optional(1000U));
  EXPECT_THAT(mean->watts, Optional(400.0));
}

TEST(MeanGpuUse, OfNothingThereIsNone) {
  MeanGpuUse uses;
  EXPECT_FALSE(uses.mean());
  uses.add({});
  EXPECT_FALSE(uses.mean());
}

}  // namespace
}  // namespace lockstep::train
