// What this machine is called and how much of it this process may use.
#pragma once

#include <string>

namespace lockstep {

// The kernel's name for this machine, never looked up in DNS.
std::string host_name();

// The same text for processes that can share memory and loopback and see each other: same boot,
// network namespace, pid namespace and user. LOCKSTEP_HOST_ID overrides it.
std::string host_id();

// Cores this process may run on: its affinity mask, cut by the cgroup's CPU quota; at least 1.
int usable_cores();

}  // namespace lockstep
