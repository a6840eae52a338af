#include "lockstep/train/run/slow_rank.h"

#include <gmock/gmock.h>

#include <random>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Steps of about `mean` seconds, with noise that is never negative, as that of a machine.
WorkTimes steps(double mean, double noise, std::mt19937& random, int count = 20) {
  std::exponential_distribution<double> late(1 / noise);
  WorkTimes times;
  for (int i = 0; i < count; ++i) {
    times.push_back(mean + late(random));
  }
  return times;
}

TEST(FindSlowRank, NamesARankWithATenthOfItsCore) {
  std::mt19937 random(1);
  std::vector<WorkTimes> ranks;
  for (const double mean : {0.010, 0.100, 0.010, 0.010}) {
    ranks.push_back(steps(mean, 0.002, random));
  }
  const auto slow = find_slow_rank(ranks);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 1);
  EXPECT_NEAR(slow->seconds, 0.1014, 0.002);
  EXPECT_NEAR(slow->others_seconds, 0.0114, 0.002);
  EXPECT_NEAR(slow->lag(), 0.090, 0.003);
}

TEST(FindSlowRank, NamesOneOfTwoRanks) {
  const auto slow = find_slow_rank(std::vector{WorkTimes(20, 0.03), WorkTimes(20, 0.01)});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 0);
  EXPECT_EQ(slow->others_seconds, 0.01);
}

TEST(FindSlowRank, IsSilentWhileAllKeepUp) {
  std::mt19937 random(2);
  for (int window = 0; window < 20000; ++window) {  // An hour of steps of 10 ms, and more.
    const std::vector ranks{steps(0.010, 0.003, random), steps(0.010, 0.003, random)};
    ASSERT_FALSE(find_slow_rank(ranks)) << window;
  }
}

TEST(FindSlowRank, OneLateStepIsNotSlow) {
  WorkTimes late(20, 0.01);
  late[7] = 5;
  EXPECT_FALSE(find_slow_rank(std::vector{late, WorkTimes(20, 0.01)}));
}

TEST(FindSlowRank, ALagThatNobodyNoticesIsNotSlow) {
  EXPECT_FALSE(find_slow_rank(std::vector{WorkTimes(20, 0.0002), WorkTimes(20, 0.0001)}));
}

TEST(FindSlowRank, ASmallShareOfAStepIsNotSlow) {
  EXPECT_FALSE(find_slow_rank(std::vector{WorkTimes(20, 0.13), WorkTimes(20, 0.10)}));
}

TEST(FindSlowRank, RanksThatTakeTurnsAreNotSlow) {
  WorkTimes even;
  WorkTimes odd;
  for (int i = 0; i < 20; ++i) {
    even.push_back(i % 3 != 0 ? 0.05 : 0.01);
    odd.push_back(i % 3 != 0 ? 0.01 : 0.05);
  }
  EXPECT_FALSE(find_slow_rank(std::vector{even, odd})) << "the slowest in 13 of 20 steps";
}

TEST(FindSlowRank, SaysNothingOfFewStepsOrOneRank) {
  EXPECT_FALSE(find_slow_rank(std::vector{WorkTimes(4, 1.0), WorkTimes(4, 0.01)}));
  EXPECT_TRUE(find_slow_rank(std::vector{WorkTimes(5, 1.0), WorkTimes(5, 0.01)}));
  EXPECT_FALSE(find_slow_rank(std::vector<WorkTimes>{WorkTimes(20, 1.0)}));
  EXPECT_FALSE(find_slow_rank({}));
  EXPECT_FALSE(find_slow_rank(std::vector{WorkTimes(), WorkTimes()}));
}

TEST(FindSlowRank, RefusesDifferentNumbersOfSteps) {
  EXPECT_THAT([] { find_slow_rank(std::vector{WorkTimes(20, 1.0), WorkTimes(19, 1.0)}); },
              ThrowsMessage<UsageError>(HasSubstr("ranks with 20 and 19 steps")));
}

TEST(DescribeSlowRank, NamesTheRankAndItsLag) {
  EXPECT_EQ(describe({.rank = 3, .seconds = 0.041, .others_seconds = 0.0125}),
            "rank 3 is slow: 41.0 ms of work in a step, the others 12.5 ms: all ranks wait 28.5 ms "
            "for it");
}

TEST(LagTable, HasARowForEachRank) {
  EXPECT_EQ(lag_table(std::vector{WorkTimes(3, 0.0125), WorkTimes(3, 0.041)}),
            "rank   work/step      lag\n"
            "   0     12.5 ms   0.0 ms\n"
            "   1     41.0 ms  28.5 ms");
}

}  // namespace
}  // namespace lockstep::train
