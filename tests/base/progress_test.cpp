#include "lockstep/base/progress.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Progress, SurvivesTheWord) {
  for (const auto phase :
       {Phase::kUnknown, Phase::kForward, Phase::kBackward, Phase::kBetweenSteps, Phase::kSaving}) {
    const Progress progress{.phase = phase, .step = 123'456'789'012};
    EXPECT_EQ(unpack_progress(pack_progress(progress)), progress);
  }
}

TEST(Progress, OfAWordThatNobodyPackedIsUnknown) {
  EXPECT_EQ(unpack_progress(0xff).phase, Phase::kUnknown);
  EXPECT_EQ(text_of(unpack_progress(0xff)), "");
}

TEST(Progress, TellsWhereARankIs) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({.phase = Phase::kForward, .step = 12}), "in forward of step 12");
  EXPECT_EQ(text_of({.phase = Phase::kBackward, .step = 12}), "in backward of step 12");
  EXPECT_EQ(text_of({.phase = Phase::kBetweenSteps, .step = 12}), "past step 12");
  EXPECT_EQ(text_of({.phase = Phase::kSaving, .step = 12}), "saving the checkpoint of step 12");
}

}  // namespace
}  // namespace lockstep
