// Starts one program as a child that cannot outlive this process.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/signals.h"

namespace lockstep::launch {

struct ChildSpec {
  std::string path;
  std::vector<std::string> arguments;  // argv, the name included.
  Environment environment;
  // Descriptors of this process that become the child's; -1: the same as ours.
  int stdout_fd = -1;
  int stderr_fd = -1;
  int kept_fd = -1;  // Stays open in the child, under the same number.
};

// The child leads a session of its own, so signals reach it and its children by process group
// and never from the terminal; the kernel kills it when this process dies. If the program
// cannot be executed the child says so on its stderr and ends with 126. Throws IoError if
// there can be no further process.
pid_t start_child(const ChildSpec& spec, const Signals& signals);

// To the child and everything in its process group.
void signal_child(pid_t pid, int signal);

}  // namespace lockstep::launch
