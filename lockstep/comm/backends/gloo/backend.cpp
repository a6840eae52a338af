// The one file that sees ProcessGroupGloo, through our own declarations of Gloo's names.
#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "lockstep/comm/backend_registry.h"

namespace lockstep {
namespace {

c10::intrusive_ptr<c10d::Backend> make_gloo(const BackendRequest& request) {
  auto options = c10d::ProcessGroupGloo::Options::create(request.connect_timeout);
  for (const auto& interface : request.interfaces) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  }
  if (options->devices.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  // As in Python: two worker threads per device, so that two collectives can run at once.
  options->threads = static_cast<int>(options->devices.size()) * 2;
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(request.store, request.rank,
                                                           request.size, options);
  group->setTimeout(request.timeout);
  return group;
}

}  // namespace

void register_gloo(BackendRegistry& registry) {
  std::vector<c10::DeviceType> devices{c10::kCPU};
  if (at::getNumGPUs() > 0) {
    devices.push_back(c10::kCUDA);
  }
  registry.add("gloo", std::move(devices), make_gloo,
               {Capability::kChoosesInterfaces, Capability::kCompletesFutures,
                Capability::kWaitsForAllRanks});
}

}  // namespace lockstep
