// Runs a test body in real processes, one per rank.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stdexcept>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::testing {

// A failed expectation in a rank becomes a failure of the test, with that rank's number.
inline void run_ranks(int world_size, const std::function<void(Group&)>& body,
                      const std::string& backend = "") {
  EXPECT_NO_THROW(spawn(world_size, [&](int) {
    Group world = init_process_group({.backend = backend, .timeout = std::chrono::seconds(60)});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

}  // namespace lockstep::testing
