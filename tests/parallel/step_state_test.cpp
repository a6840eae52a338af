#include "lockstep/parallel/step_state.h"

#include <gmock/gmock.h>

namespace lockstep::parallel {
namespace {

using Phase = StepState::Phase;

TEST(StepState, GoesFromIdleToExpectedToBackwardAndBack) {
  StepState state;
  EXPECT_EQ(state.phase(), Phase::kIdle);
  state.expect_backward(1, {1});
  EXPECT_EQ(state.phase(), Phase::kExpected);
  EXPECT_TRUE(state.begin_backward());
  EXPECT_EQ(state.phase(), Phase::kInBackward);
  EXPECT_FALSE(state.begin_backward());  // The second gradient begins nothing.
  EXPECT_TRUE(state.is_synchronized());
  state.end();
  EXPECT_FALSE(state.is_synchronized());
}

TEST(StepState, StartsBucketsInOrderOnceTheyAreComplete) {
  StepState state;
  state.expect_backward(3, {2, 1});
  state.count_in(1);
  EXPECT_EQ(state.next_complete_bucket(), std::nullopt);  // The first one comes first.
  state.count_in(0);
  EXPECT_EQ(state.next_complete_bucket(), std::nullopt);
  state.count_in(0);
  EXPECT_EQ(state.next_complete_bucket(), 0U);
  EXPECT_FALSE(state.all_started());
  EXPECT_EQ(state.next_complete_bucket(), 1U);
  EXPECT_TRUE(state.all_started());
  EXPECT_EQ(state.next_complete_bucket(), std::nullopt);
}

TEST(StepState, TellsAGradientThatComesTwice) {
  StepState state;
  state.expect_backward(2, {2});
  EXPECT_TRUE(state.mark_ready(1));
  EXPECT_FALSE(state.mark_ready(1));
  EXPECT_FALSE(state.is_ready(0));
  state.end();
  EXPECT_TRUE(state.is_ready(1));  // For the error that lists what is missing.
}

TEST(StepState, ForgetsTheStepBefore) {
  StepState state;
  state.expect_backward(1, {1});
  state.begin_backward();
  state.mark_ready(0);
  state.count_in(0);
  state.next_complete_bucket();
  state.watch(7);
  state.expect_backward(1, {1});
  EXPECT_EQ(state.phase(), Phase::kExpected);
  EXPECT_FALSE(state.is_ready(0));
  EXPECT_FALSE(state.all_started());
  EXPECT_EQ(state.next_complete_bucket(), std::nullopt);
  EXPECT_TRUE(state.watch(7));
}

TEST(StepState, WatchesEachBackwardOnce) {
  StepState state;
  state.expect_backward(1, {1});
  EXPECT_TRUE(state.watch(3));
  EXPECT_FALSE(state.watch(3));
  EXPECT_TRUE(state.watch(4));  // A pass inside of another one.
  EXPECT_TRUE(state.watch(3));
}

}  // namespace
}  // namespace lockstep::parallel
