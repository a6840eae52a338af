#pragma once

#include <grp.h>
#include <unistd.h>

namespace lockstep::testing {

// A forked child of root gives its rights up, as limits do not hold for root. False if it cannot.
inline bool become_ordinary_user() {
  // The kernel counts what a user has in flight over all processes, so tests that run at the same
  // time are different users. The children of one test are the same.
  const auto user = static_cast<uid_t>(100000 + ::getppid());
  return ::geteuid() != 0 ||
         (::setgroups(0, nullptr) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0);
}

}  // namespace lockstep::testing
