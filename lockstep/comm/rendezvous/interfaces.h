// Decides through which network interfaces a rank talks to the others.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/discover.h"

namespace lockstep::comm {

// LOCKSTEP_SOCKET_IFNAME, else GLOO_SOCKET_IFNAME (comma-separated), else loopback for a job on one
// host, else the interface that routes to `master_host`. Empty, so that the backend chooses, if
// none of these applies. Throws UsageError for a name that this machine does not have.
std::vector<std::string> choose_interfaces(const Environment& environment,
                                           const cluster::Membership& member,
                                           const std::string& master_host);

}  // namespace lockstep::comm
