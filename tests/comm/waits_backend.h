// A backend for the CPU that says of itself what NCCL does: its first collective waits for all
// ranks without a limit, so they have to meet before.
#pragma once

#include <string>

#include "lockstep/comm/backend_registry.h"

namespace lockstep::testing {

// With the backend "waits", which else is as `like`: "shm", or "gloo", which knows nothing of other
// ranks.
inline BackendRegistry registry_with_waits(const std::string& like = "shm") {
  auto registry = BackendRegistry::built_in();
  auto capabilities = registry.capabilities(like);
  capabilities.insert(Capability::kFirstWaitsForAll);
  registry.add("waits", {c10::kCPU}, registry.factory(like), capabilities);
  return registry;
}

}  // namespace lockstep::testing
