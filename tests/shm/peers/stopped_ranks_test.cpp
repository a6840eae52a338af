#include "lockstep/shm/peers/stopped_ranks.h"

#include <gmock/gmock.h>

#include <numeric>
#include <set>
#include <thread>

#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::soon;

// What is found until there is something, or `enough` says so.
std::vector<int> find_until(StoppedRanks& ranks, const std::vector<int>& awaited,
                            const std::function<bool()>& enough) {
  const auto deadline = soon();
  std::vector<int> found;
  while (found.empty() && !enough() && !deadline.passed()) {
    found = ranks.find(awaited);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return found;
}

TEST(StoppedRanks, AreNewsOnceAndAfterASecond) {
  int looks = 0;
  StoppedRanks ranks([&](int rank) { return ++looks > 0 && rank == 3; });
  const auto start = Deadline::Clock::now();
  EXPECT_THAT(find_until(ranks, {2, 3}, [] { return false; }), ::testing::ElementsAre(3));
  EXPECT_GE(Deadline::Clock::now() - start, std::chrono::seconds(1));
  const int before = looks;
  EXPECT_THAT(find_until(ranks, {2, 3}, [&] { return looks > before + 12; }), ::testing::IsEmpty());
}

TEST(StoppedRanks, OneThatGoesOnInBetweenIsNoNews) {
  int looks = 0;
  StoppedRanks ranks([&](int) { return ++looks % 3 != 0; });
  EXPECT_THAT(find_until(ranks, {0}, [&] { return looks > 9; }), ::testing::IsEmpty());
}

TEST(StoppedRanks, ManyAreLookedAtInTurn) {
  std::set<int> seen;
  int looks = 0;
  StoppedRanks ranks([&](int rank) {
    ++looks;
    seen.insert(rank);
    return false;
  });
  std::vector<int> awaited(20);
  std::iota(awaited.begin(), awaited.end(), 0);
  find_until(ranks, awaited, [&] { return looks > 0; });
  EXPECT_EQ(looks, 8);
  find_until(ranks, awaited, [&] { return looks >= 24; });
  EXPECT_EQ(seen.size(), 20U);
}

}  // namespace
}  // namespace lockstep::shm
