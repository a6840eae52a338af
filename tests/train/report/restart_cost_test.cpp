#include "lockstep/train/report/restart_cost.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using std::chrono::seconds;

TEST(RestartCost, LastsFromTheLastStepToTheNextNewOne) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto begin = RestartCost::Clock::now();
  RestartCost first(path, 0);
  first.on_step(1, begin);
  first.on_step(2, begin + seconds(1));
  EXPECT_EQ(first.seconds(), 0);

  RestartCost second(path, 1);
  second.on_step(2, begin + seconds(4));  // Again.
  EXPECT_EQ(second.seconds(), 0);
  second.on_step(3, begin + seconds(6));
  EXPECT_NEAR(second.seconds(), 5, 1e-3);

  RestartCost third(path, 2);
  third.on_step(4, begin + seconds(8));
  EXPECT_NEAR(third.seconds(), 7, 1e-3);
  EXPECT_EQ(third.restarts(), 2);
}

TEST(RestartCost, TheJobsTimeBeginsWithItsFirstStart) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto begin = RestartCost::Clock::now();
  RestartCost first(path, 0);
  first.on_step(1, begin + seconds(1));
  EXPECT_NEAR(first.seconds_of_job(begin + seconds(2)).value(), 2, 0.5);
  RestartCost second(path, 1);
  second.on_step(2, begin + seconds(50));
  const RestartCost third(path, 2);
  EXPECT_NEAR(third.seconds_of_job(begin + seconds(100)).value(), 100, 0.5);
}

TEST(RestartCost, AStartThatDiedBeforeItsLineCountsFromTheJobsBegin) {
  const toys::Folder folder;
  const auto begin = RestartCost::Clock::now() - seconds(30);
  RestartCost second(folder.path + "/restarts", 1, begin);
  EXPECT_NEAR(second.seconds_of_job(begin + seconds(22)).value(), 22, 1e-3);
  second.on_step(1, begin + seconds(16));
  EXPECT_NEAR(second.seconds(), 16, 1e-3);
  const RestartCost third(folder.path + "/restarts", 2, begin + seconds(5));
  EXPECT_NEAR(third.seconds_of_job(begin + seconds(40)).value(), 40, 1e-3) << "by the line";
}

TEST(RestartCost, TheJobsTimeIsUnknownIfTheFirstStartDidNotWriteIt) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  std::ofstream(path) << "5 1000.5 7.25\n";
  RestartCost cost(path, 1);
  EXPECT_FALSE(cost.seconds_of_job());
  cost.on_step(6, RestartCost::Clock::now());
  EXPECT_FALSE(RestartCost(path, 2).seconds_of_job());
  EXPECT_GT(RestartCost(path, 2).seconds(), 7);
}

TEST(RestartCost, AnotherJobBeginsAnew) {
  const toys::Folder folder;
  RestartCost(folder.path + "/restarts", 0).on_step(5, RestartCost::Clock::now());
  RestartCost next(folder.path + "/restarts", 0);
  next.on_step(6, RestartCost::Clock::now() + seconds(9));
  EXPECT_EQ(next.seconds(), 0);
}

TEST(RestartCost, ARestartBeforeTheFirstStepCountsFromTheStart) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto long_ago = RestartCost::Clock::now() - seconds(5000);
  RestartCost(path, 0).on_step(9, long_ago);  // Another job.
  const auto begin = RestartCost::Clock::now();
  {
    const RestartCost first(path, 0);
  }
  RestartCost second(path, 1);
  second.on_step(1, begin + seconds(4));
  EXPECT_NEAR(second.seconds(), 4, 1);
}

// As a process would find it that is started after a kill at any moment.
TEST(RestartCost, IsNeverWithoutTheSecondsSoFar) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto begin = RestartCost::Clock::now();
  RestartCost(path, 0).on_step(1, begin);
  RestartCost cost(path, 1);
  cost.on_step(2, begin + seconds(100));
  ASSERT_NEAR(cost.seconds(), 100, 1e-3);
  std::atomic<bool> is_over = false;
  std::thread steps([&] {
    for (int step = 3; !is_over; ++step) {
      cost.on_step(step, begin + seconds(100 + step));
    }
  });
  int lost = 0;
  for (int i = 0; i < 5000; ++i) {
    lost += RestartCost(path, 2).seconds() < 99 ? 1 : 0;
  }
  is_over = true;
  steps.join();
  EXPECT_EQ(lost, 0);
}

TEST(RestartCost, ARestartInAValidationLastsUntilThatIsDone) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto begin = RestartCost::Clock::now();
  RestartCost(path, 0).on_step(5, begin);
  RestartCost second(path, 1);
  second.on_epoch(5, begin + seconds(7));
  EXPECT_NEAR(second.seconds(), 7, 1e-3);
  second.on_step(6, begin + seconds(8));
  EXPECT_NEAR(second.seconds(), 7, 1e-3) << "counted once";
  // An epoch before the last step is made again, and ends nothing.
  RestartCost third(path, 2);
  third.on_epoch(5, begin + seconds(20));
  EXPECT_NEAR(third.seconds(), 7, 1e-3);
}

TEST(RestartCost, ARestartThatFindsNothingLeftCountsToTheEnd) {
  const toys::Folder folder;
  const auto path = folder.path + "/restarts";
  const auto begin = RestartCost::Clock::now();
  RestartCost(path, 0).on_epoch(5, begin);
  RestartCost second(path, 1);
  second.on_end(begin + seconds(3));
  EXPECT_NEAR(second.seconds(), 3, 1e-3);
  second.on_end(begin + seconds(9));
  EXPECT_NEAR(second.seconds(), 3, 1e-3) << "counted once";
  RestartCost undisturbed(path, 0);
  undisturbed.on_end(begin + seconds(9));
  EXPECT_EQ(undisturbed.seconds(), 0);
}

TEST(RestartCost, ADiskThatFailsCostsTheFiguresAlone) {
  RestartCost cost("/proc/nothing/restarts", 0);
  EXPECT_NO_THROW(cost.on_step(1, RestartCost::Clock::now()));
}

}  // namespace
}  // namespace lockstep::train
