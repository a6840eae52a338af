#include "lockstep/parallel/data_parallel.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <string>

namespace lockstep::parallel {
namespace {

at::Device device_of(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

std::vector<at::Device> all_devices(const torch::nn::Module& module) {
  const at::Device own = device_of(module);
  std::vector<at::Device> devices;
  for (int i = 0; own.is_cuda() && i < at::detail::getCUDAHooks().deviceCount(); ++i) {
    devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
  }
  return devices.empty() ? std::vector{own} : devices;
}

}  // namespace

std::vector<at::Device> devices_for(const torch::nn::Module& module,
                                    const DataParallelOptions& options) {
  auto devices = options.device_ids.empty() ? all_devices(module) : options.device_ids;
  for (const auto& device : devices) {
    if (device.type() != devices.front().type()) {
      throw UsageError("DataParallel: the devices " + devices.front().str() + " and " +
                       device.str() + " are of two kinds, expected one");
    }
    if (device.is_cuda() && !device.has_index()) {
      throw UsageError("DataParallel: 'cuda' does not say which GPU, expected cuda:0 or another");
    }
  }
  return devices;
}

}  // namespace lockstep::parallel
