#include "lockstep/base/progress.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

TEST(Progress, SurvivesTheWord) {
  for (const auto phase : {Phase::kUnknown, Phase::kForward, Phase::kBackward, Phase::kBetweenSteps,
                           Phase::kSaving, Phase::kFailed}) {
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

TEST(Progress, SaysSomethingOfARankThatSaidNothing) {
  EXPECT_EQ(place_of({}), "before its first step");
  EXPECT_EQ(place_of({.phase = Phase::kBetweenSteps, .step = 1}), "past step 1");
}

TEST(Progress, OfARankThatHasToComeIsBehind) {
  const Progress forward{.phase = Phase::kForward, .step = 12};
  const Progress backward{.phase = Phase::kBackward, .step = 12};
  EXPECT_TRUE(is_behind(forward, backward));
  EXPECT_FALSE(is_behind(backward, forward));
  EXPECT_FALSE(is_behind(forward, forward));
  EXPECT_TRUE(is_behind({.phase = Phase::kBetweenSteps, .step = 11}, forward));
  EXPECT_TRUE(is_behind({}, {.phase = Phase::kForward, .step = 1}));
  const Progress saving{.phase = Phase::kSaving, .step = 12};
  EXPECT_TRUE(is_behind(saving, {.phase = Phase::kBetweenSteps, .step = 12}));
  EXPECT_TRUE(is_behind(backward, saving));
}

TEST(Progress, ARankThatFailedIsBehindAllOthers) {
  const Progress failed{.phase = Phase::kFailed, .step = 12};
  EXPECT_TRUE(is_behind(failed, {.phase = Phase::kForward, .step = 12}));
  EXPECT_TRUE(is_behind(failed, {}));
  EXPECT_FALSE(is_behind({}, failed));
  EXPECT_FALSE(is_behind(failed, failed));
  EXPECT_EQ(text_of(failed), "stopped by an error in or after step 12");
}

}  // namespace
}  // namespace lockstep
