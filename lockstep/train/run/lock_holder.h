// Names the process that has a lock.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep::train {

// The process with a flock() on this open file, from the kernel's list; 0 if it cannot be told, as
// for a lock that another machine has. `list` is for tests.
pid_t lock_holder(int file, const std::string& list = "/proc/locks");

}  // namespace lockstep::train
