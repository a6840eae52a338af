// TCP endpoints: parsing, listening, connecting with a deadline, and which interface leads where.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep {

struct Endpoint {
  std::string host;
  int port = 0;
};

// "host:port", "[::1]:port" or, when `default_port` is given, "host". Throws
// UsageError naming `what` (the flag or variable) for text that is no port.
Endpoint parse_endpoint(std::string_view text, std::string_view what,
                        std::optional<int> default_port = std::nullopt);

std::string to_text(const Endpoint& endpoint);

struct Listener {
  UniqueFd fd;
  int port = 0;
};

// "localhost" or an address of 127.0.0.0/8 or ::1, as it is written, with no look-up.
bool is_loopback_name(const std::string& host);

// Listens on that address alone. The one exception is a host name that this machine's own
// hosts file maps to loopback (Debian's 127.0.1.1): peers know it by another address, so
// all interfaces are listened on. Port 0 lets the kernel choose.
// Throws UsageError if the port is taken or the address is not one of this machine.
Listener listen_on(const Endpoint& endpoint);

struct Accepted {
  UniqueFd fd;       // Non-blocking; none if nobody waits.
  std::string host;  // The numeric address it comes from.
};

// Takes the next connection that waits; blocks if the listener does.
Accepted accept_on(const Listener& listener);

// Tries until the deadline (a master may start later than its peers). The descriptor is
// non-blocking. Throws PeerError with the address, the last reason and the time it waited. The
// deadline does not limit how long the resolver takes to look up a name.
UniqueFd connect_to(const Endpoint& endpoint, Deadline deadline);

// Whether `host` resolves to an address of this machine (all of 127.0.0.0/8 is).
bool is_this_machine(const std::string& host);

// The interface whose address the kernel would use to reach `host`; nothing if there is no route.
std::optional<std::string> interface_towards(const std::string& host);

}  // namespace lockstep
