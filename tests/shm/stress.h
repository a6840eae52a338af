// Teams that are kept busy, and how long. LOCKSTEP_STRESS_COUNT makes a soak of a test.
#pragma once

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/shm/teams.h"

namespace lockstep::shm::testing {

// Sleepers look again every 50 ms, which would hide a wake-up that was lost: each one is counted.
inline TeamOptions stress_options() {
  auto options = small_options();
  options.bell_patience = std::chrono::seconds(20);
  return options;
}
inline void expect_no_lost_wake_up(Team& team) {
  EXPECT_EQ(team.watch().missed_bells(), 0U) << "rank " << team.rank();
}
inline void stress_threads(int size, const Body& body) {
  on_threads(
      size,
      [&](Team& team) {
        body(team);
        expect_no_lost_wake_up(team);
      },
      stress_options());
}
inline void stress_processes(int size, const Body& body) {
  on_processes(
      size,
      [&](Team& team) {
        body(team);
        expect_no_lost_wake_up(team);
      },
      stress_options());
}

// Collectives or messages of a test.
inline int stress_count() {
  const char* text = std::getenv("LOCKSTEP_STRESS_COUNT");
  return text != nullptr ? std::atoi(text) : 3000;
}

}  // namespace lockstep::shm::testing
