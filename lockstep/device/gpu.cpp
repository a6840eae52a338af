// Compiled where CUDA is found; gpu_missing.cpp stands in elsewhere.
#include "lockstep/device/gpu.h"

#include <cuda_runtime_api.h>

#include <array>

namespace lockstep::device {
namespace {

int index_of(at::Device device) { return device.has_index() ? device.index() : 0; }

}  // namespace

std::string gpu_name(at::Device device) {
  cudaDeviceProp properties{};
  if (!device.is_cuda() || cudaGetDeviceProperties(&properties, index_of(device)) != cudaSuccess) {
    return "";
  }
  return properties.name;
}

std::string pci_bus_id(at::Device device) {
  std::array<char, 32> text{};
  if (!device.is_cuda() || cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()),
                                                 index_of(device)) != cudaSuccess) {
    return "";
  }
  return text.data();
}

}  // namespace lockstep::device
