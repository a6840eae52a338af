#include "lockstep/train/report/interval.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::train {
namespace {

IntervalPart part(double loss, double communication, double work) {
  return {{loss, 1, 2, 4, 4}, {2.0, 0.5, communication}, std::vector<double>(20, work)};
}

TEST(Interval, AddsScoresAndAveragesTimes) {
  const auto interval = interval_of({part(4, 0.5, 0.1), part(8, 0.1, 0.1)});
  EXPECT_EQ(interval.train.samples, 8);
  EXPECT_EQ(interval.train.loss, 1.5);
  EXPECT_EQ(interval.samples_per_second, 4);  // 8 samples in 2 s, by both together.
  EXPECT_DOUBLE_EQ(interval.data_wait, 0.25);
  EXPECT_DOUBLE_EQ(interval.communication_wait, 0.15);
  EXPECT_EQ(interval.slow_rank, "");
}

TEST(Interval, NamesASlowRank) {
  EXPECT_THAT(interval_of({part(1, 1, 0.1), part(1, 0, 0.3)}).slow_rank,
              ::testing::HasSubstr("rank 1 is slow"));
}

TEST(SlowRankWatch, NamesARankOnceForAsLongAsItIsSlow) {
  EXPECT_NO_THROW(spawn(2, [](int rank) {
    const auto world = init_process_group({.backend = "gloo"});
    SlowRankWatch watch;
    const auto look = [&](double first, double second) {
      return watch.look(world, std::vector<double>(20, rank == 0 ? first : second));
    };
    const auto require = [](bool is_right, const std::string& text) {
      if (!is_right) {
        throw std::runtime_error("it said: '" + text + "'");
      }
    };
    const auto named = look(0.01, 0.03);
    require(named.starts_with("rank 1 is slow: 30.0 ms") && named.ends_with("30.0 ms  20.0 ms"),
            named);
    const auto again = look(0.01, 0.03);
    require(again.empty(), again);
    const auto other = look(0.05, 0.01);
    require(other.starts_with("rank 0 is slow"), other);
    const auto none = look(0.01, 0.01);
    require(none.empty(), none);
    const auto anew = look(0.05, 0.01);
    require(anew.starts_with("rank 0 is slow"), anew);
  }));
}

TEST(SlowRankWatch, WhoIsNamedByALineOfTheLogIsNoNewsAfterIt) {
  SlowRankWatch watch;
  const std::vector parts{part(1, 1, 0.01), part(1, 0, 0.03)};
  EXPECT_THAT(watch.look(parts), ::testing::AllOf(::testing::StartsWith("rank 1 is slow: 30.0 ms"),
                                                  ::testing::EndsWith("30.0 ms  20.0 ms")));
  EXPECT_EQ(watch.look(parts), "");
}

TEST(SlowRankWatch, OneRankIsNeverSlow) {
  EXPECT_EQ(SlowRankWatch().look(init_process_group(), std::vector<double>(20, 1.0)), "");
}

TEST(Interval, PartsAreGatheredWhole) {
  const auto parts = gather(init_process_group(), part(3, 0.25, 0.5));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].sums, part(3, 0.25, 0.5).sums);
  EXPECT_EQ(parts[0].times.communication, 0.25);
  EXPECT_EQ(parts[0].work.size(), 20U);
}

}  // namespace
}  // namespace lockstep::train
