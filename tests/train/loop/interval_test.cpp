#include "lockstep/train/loop/interval.h"

#include <gmock/gmock.h>

#include "lockstep/comm/init_process_group.h"

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
              testing::HasSubstr("rank 1 is slow"));
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
