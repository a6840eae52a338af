#include "lockstep/shm/progress.h"

#include <gmock/gmock.h>

namespace lockstep::shm {
namespace {

TEST(Progress, SurvivesTheWord) {
  for (const auto phase :
       {Phase::kUnknown, Phase::kForward, Phase::kBackward, Phase::kBetweenSteps}) {
    const Progress progress{.phase = phase, .step = 123'456'789'012};
    EXPECT_EQ(unpack(pack(progress)), progress);
  }
}

TEST(Progress, OfAWordThatNobodyPackedIsUnknown) {
  EXPECT_EQ(unpack(0xff).phase, Phase::kUnknown);
  EXPECT_EQ(text_of(unpack(0xff)), "");
}

TEST(Progress, TellsWhereARankIs) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({.phase = Phase::kForward, .step = 12}), "in forward of step 12");
  EXPECT_EQ(text_of({.phase = Phase::kBackward, .step = 12}), "in backward of step 12");
  EXPECT_EQ(text_of({.phase = Phase::kBetweenSteps, .step = 12}), "past step 12");
}

}  // namespace
}  // namespace lockstep::shm
