// Test bodies that start LibTorch's threads, in a process of their own: spawn() in later tests
// refuses a process with threads.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/child.h"

namespace lockstep::test {

inline void in_child(const std::function<void()>& body) {
  const int status = run_in_child([&] {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(status, 0) << "see above";
}

}  // namespace lockstep::test
