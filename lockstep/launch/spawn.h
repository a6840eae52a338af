// Starts one program as a child that cannot outlive this process.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

struct ChildSpec {
  std::string path;
  std::vector<std::string> arguments;  // argv, the name included.
  Environment environment;
  // Descriptors of this process that become the child's; -1: the same as ours.
  int stdout_fd = -1;
  int stderr_fd = -1;
  int kept_fd = -1;          // Stays open in the child, under the same number.
  bool ended_by_us = false;  // Signals to a whole control group (SIGTERM, SIGUSR1, ...) pass it by.
};

struct Child {
  pid_t pid = 0;
  // A pidfd: means this child alone, also when its pid has gone to another process. Closed where
  // there are no pidfds; then nobody but its owner may reap the child.
  UniqueFd handle;
};

// The child leads a session of its own, so signals reach it and its children by process group
// and never from the terminal; the kernel kills it when this process dies. If the program
// cannot be executed the child says so on its stderr and ends with 126. Throws IoError if
// there can be no further process.
Child start_child(const ChildSpec& spec, const Signals& signals);

enum class Reach { kGroup, kProcess };

// To the child and everything in its process group, or to the child alone; to nobody once the
// child was reaped, for its pid may mean another process then.
void signal_child(const Child& child, int signal, Reach reach = Reach::kGroup);

// Kills and reaps it, if nobody has reaped it yet.
void end_child(Child child);

}  // namespace lockstep::launch
