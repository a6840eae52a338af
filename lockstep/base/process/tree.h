// Finding and ending every process that descends from this one.
//
// A process that called become_subreaper() inherits its orphaned descendants,
// so none can hide by forking twice or by starting a session of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

void become_subreaper();

// Asks the kernel to send `signal` to this process when its parent dies, and
// returns false if the parent (`expected_parent`) is gone already.
bool die_with_parent(int signal, pid_t expected_parent);

// Children, their children and so on, of `root`, zombies excluded; in no particular order.
std::vector<pid_t> descendants_of(pid_t root);

// SIGKILLs and reaps all descendants of this process, except `spared`, until none is left.
// False if some still live at the deadline (a process in an uninterruptible system call).
bool kill_descendants(Deadline deadline, pid_t spared = 0);

// "SIGKILL", "SIGRTMIN+3"; "signal 99" where there is no such signal.
std::string signal_name(int signal);

// 15 for "SIGTERM", "TERM", "sigterm" or "15"; 0 if there is no such signal.
int signal_number(const std::string& name);

}  // namespace lockstep
