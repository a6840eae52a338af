// A forked child that cannot outlive this process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep {

struct ChildProcess {
  pid_t pid = 0;
  // A pidfd: readable when the child has ended. It means only this child, even after its pid was
  // given to another process. Closed if the kernel has no pidfds.
  UniqueFd handle;
};

// Forks, and calls `run` in the child, which must end the process there. The kernel sends the child
// `at_our_death` when this process dies. Throws IoError that begins with `what` if no process can
// be created.
ChildProcess fork_child(const std::string& what, int at_our_death,
                        const std::function<void()>& run);

}  // namespace lockstep
