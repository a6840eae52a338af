#include "lockstep/comm/rendezvous/interfaces.h"

#include <net/if.h>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

std::vector<std::string> named_by_user(const Environment& environment, const char* variable) {
  std::vector<std::string> names;
  for (const auto& name : split(environment.get(variable).value_or(""), ',')) {
    if (name.empty()) {
      continue;
    }
    if (::if_nametoindex(name.c_str()) == 0) {
      throw UsageError(std::string("environment variable ") + variable + " names '" + name +
                       "', which is no network interface of this machine; see 'ip link'");
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> choose_interfaces(const Environment& environment,
                                           const cluster::Membership& member,
                                           const std::string& master_host) {
  for (const char* variable : {"LOCKSTEP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (auto names = named_by_user(environment, variable); !names.empty()) {
      return names;
    }
  }
  if (member.world_size == 1 || member.local_size == member.world_size) {
    return {"lo"};
  }
  if (master_host.empty()) {
    return {};
  }
  auto towards = interface_towards(master_host);
  if (towards == "lo" && !is_loopback_name(master_host)) {
    // The master's own name, mapped to 127.0.1.1 by its hosts file: its peers come from outside.
    towards = interface_towards("192.0.2.1");  // A documentation address: takes the default route.
  }
  return towards ? std::vector<std::string>{*towards} : std::vector<std::string>{};
}

}  // namespace lockstep::comm
