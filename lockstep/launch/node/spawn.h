// Starts one program as a child that cannot outlive this process.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/process/child.h"
#include "lockstep/launch/node/signals.h"

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

// Without a handle only the owner may reap it.
using Child = ChildProcess;

// The child leads its own session: signals reach it and its children by process group, never from
// the terminal. The kernel kills it when this process dies. If the program cannot be executed, the
// child says so on its stderr and exits with 126. Throws IoError if no process can be created.
Child start_child(const ChildSpec& spec, const Signals& signals);

enum class Reach { kGroup, kProcess };

// Signals the child and everything in its process group, or only the child. Signals nobody after
// the child was reaped, because its pid may then belong to another process, and nobody for a child
// that was never started.
void signal_child(const Child& child, int signal, Reach reach = Reach::kGroup);

// Kills and reaps the child, if nobody has reaped it yet.
void end_child(Child child);

}  // namespace lockstep::launch
