// Runs a test body in real processes, one per rank.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::testing {

// "lockstep" with the ranks on two hosts: the first half of them, and the rest.
inline constexpr const char* kTwoHosts = "two_hosts";

// A failed expectation in a rank becomes a failure of the test, with that rank's number.
inline void run_ranks(int world_size, const std::function<void(Group&)>& body,
                      const std::string& backend = "") {
  EXPECT_NO_THROW(spawn(world_size, [&](int rank) {
    if (backend == kTwoHosts) {
      ::setenv("LOCKSTEP_HOST_ID", rank < (world_size + 1) / 2 ? "here" : "there", 1);
    }
    Group world = init_process_group({.backend = backend == kTwoHosts ? "lockstep" : backend,
                                      .timeout = std::chrono::seconds(60)});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

}  // namespace lockstep::testing
