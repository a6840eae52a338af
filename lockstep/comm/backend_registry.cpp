#include "lockstep/comm/backend_registry.h"

#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/rendezvous/store_round.h"

namespace lockstep {

BackendRegistry BackendRegistry::built_in() {
  BackendRegistry registry;
  register_gloo(registry);
  register_nccl(registry);
  register_mpi(registry);
  register_shm(registry);
  register_lockstep(registry);
  return registry;
}

void BackendRegistry::add(const std::string& name, std::vector<c10::DeviceType> devices,
                          BackendFactory factory, Capabilities capabilities) {
  entries_.insert_or_assign(
      name, Entry{std::move(devices), {}, std::move(factory), std::move(capabilities)});
}

void BackendRegistry::allow(const std::string& name, c10::DeviceType device) {
  entries_.at(name).if_named.push_back(device);
}

const BackendRegistry::Entry& BackendRegistry::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [known, entry] : entries_) {
    names.push_back(known);
  }
  std::string why = " is unknown";
  if (name == "mpi") {
    why = " needs a lockstep that was built where Open MPI is installed";
  } else if (name == "nccl") {
    why = " needs a lockstep that was built with CUDA (cmake -DLOCKSTEP_CUDA=ON)";
  }
  throw UsageError("backend '" + name + "'" + why + "; expected one of: " + join(names, ", "));
}

std::vector<std::pair<c10::DeviceType, std::string>> BackendRegistry::parse(
    const std::string& backends) const {
  std::vector<std::pair<c10::DeviceType, std::string>> parsed;
  for (const auto& part : split(backends, ',')) {
    const auto colon = part.find(':');
    if (colon == std::string::npos) {
      for (const auto device : find(part).devices) {
        parsed.emplace_back(device, part);
      }
      continue;
    }
    const std::string device = part.substr(0, colon);
    const std::string name = part.substr(colon + 1);
    if (device != "cpu" && device != "cuda") {
      throw UsageError("backend '" + backends + "': '" + device +
                       "' is no device; expected cpu:NAME, cuda:NAME or both, comma-separated");
    }
    const auto type = device == "cpu" ? c10::kCPU : c10::kCUDA;
    const auto& entry = find(name);
    const auto serves = [type](const std::vector<c10::DeviceType>& devices) {
      return std::find(devices.begin(), devices.end(), type) != devices.end();
    };
    if (!serves(entry.devices) && !serves(entry.if_named)) {
      throw UsageError("backend '" + backends + "': '" + name + "' does not serve " + device +
                       " tensors on this machine");
    }
    parsed.emplace_back(type, name);
  }
  return parsed;
}

c10::intrusive_ptr<c10d::Backend> BackendRegistry::make(const std::string& name,
                                                        const BackendRequest& request) const {
  const auto& entry = find(name);
  if (!entry.capabilities.contains(Capability::kWaitsForAllRanks)) {
    return entry.factory(request);
  }
  comm::StoreRound round(request.store);
  BackendRequest own = request;
  own.store = round.store();
  auto backend = entry.factory(own);
  round.formed();
  return backend;
}

std::string BackendRegistry::default_backends() const {
  const bool gpus = has("nccl") && at::getNumGPUs() > 0;
  return gpus ? "cpu:lockstep,cuda:nccl" : "lockstep";
}

}  // namespace lockstep
