// What a fork of a rank can do with what it inherits.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::testing {

// Runs `body` in a fork, which ends with _exit(): 0 if it found what it expected.
inline void in_a_fork(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // A child that hangs is killed, and seen.
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << (WIFSIGNALED(status) ? "it hung" : "it found something else");
}

// Whether the call says that it cannot be made in a fork.
template <class Call>
bool is_refused(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return std::string(error.what()).find("fork") != std::string::npos;
  }
  return false;
}

}  // namespace lockstep::testing
