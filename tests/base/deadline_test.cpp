#include "lockstep/base/deadline.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Deadline, InZeroMillisecondsHasPassed) {
  const Deadline deadline = Deadline::in(milliseconds(0));
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.remaining(), milliseconds(0));
  EXPECT_EQ(deadline.poll_timeout(), 0);
}

TEST(Deadline, ANegativeTimeCountsAsNow) {
  const Deadline deadline = Deadline::in(milliseconds::min());
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.total(), milliseconds(0));
}

TEST(Deadline, ForEverDoesNotOverflow) {
  const Deadline deadline = Deadline::in(milliseconds::max());
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.remaining(), hours(24 * 364));
  EXPECT_EQ(deadline.poll_timeout(), std::numeric_limits<int>::max());
}

TEST(Deadline, RemainingShrinksTowardsIt) {
  const Deadline deadline = Deadline::in(minutes(1));
  const auto first = deadline.remaining();
  EXPECT_LE(first, milliseconds(60'000));
  EXPECT_GT(first, milliseconds(30'000));
  EXPECT_LE(deadline.remaining(), first);
  EXPECT_EQ(deadline.total(), minutes(1));
}

TEST(Deadline, ATimeoutForOthersIsNeverZero) {
  EXPECT_EQ(Deadline::in(milliseconds(0)).as_timeout(), milliseconds(1));
  EXPECT_GT(Deadline::in(minutes(1)).as_timeout(), milliseconds(50000));
}

TEST(Deadline, APollTimeoutOfZeroMeansThatItHasPassed) {
  const Deadline deadline = Deadline::in(milliseconds(20));
  while (deadline.poll_timeout() > 0) {
  }
  EXPECT_TRUE(deadline.passed());
}

TEST(DurationText, PicksTheUnitAPersonWouldUse) {
  EXPECT_EQ(to_text(milliseconds(0)), "0 ms");
  EXPECT_EQ(to_text(milliseconds(250)), "250 ms");
  EXPECT_EQ(to_text(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(to_text(seconds(30)), "30 s");
  EXPECT_EQ(to_text(seconds(90)), "90 s");
  EXPECT_EQ(to_text(minutes(1)), "60 s");
  EXPECT_EQ(to_text(minutes(30)), "30 min");
}

}  // namespace
}  // namespace lockstep
