#include "lockstep/base/ask.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(Ask, ReturnsAtTheFirstYes) {
  int asked = 0;
  EXPECT_TRUE(ask_for(std::chrono::hours(1), [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(Ask, GivesUpAtItsTime) {
  const auto begun = Clock::now();
  EXPECT_FALSE(ask_for(milliseconds(20), [] { return false; }));
  EXPECT_GE(Clock::now() - begun, milliseconds(20));
}

TEST(Ask, AsksAtLeastOnce) {
  EXPECT_TRUE(ask_for(milliseconds(0), [] { return true; }));
  EXPECT_FALSE(ask_for(milliseconds(0), [] { return false; }));
}

// A thread that asked without a pause would take its core from the loader.
TEST(Ask, SleepsBetweenQuestionsAfterAMoment) {
  int asked = 0;
  const auto begun = Clock::now();
  EXPECT_FALSE(ask_for(milliseconds(100), [&] {
    asked += Clock::now() - begun > milliseconds(10) ? 1 : 0;
    return false;
  }));
  EXPECT_LE(asked, 1000);
}

}  // namespace
}  // namespace lockstep
