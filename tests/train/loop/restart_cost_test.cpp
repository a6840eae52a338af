#include "lockstep/train/loop/restart_cost.h"

#include <gtest/gtest.h>

#include "tests/train/loop/toys.h"

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

TEST(RestartCost, AnotherJobBeginsAnew) {
  const toys::Folder folder;
  RestartCost(folder.path + "/restarts", 0).on_step(5, RestartCost::Clock::now());
  RestartCost next(folder.path + "/restarts", 0);
  next.on_step(6, RestartCost::Clock::now() + seconds(9));
  EXPECT_EQ(next.seconds(), 0);
}

}  // namespace
}  // namespace lockstep::train
