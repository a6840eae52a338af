// Compiled where CUDA is found; gpu_missing.cpp stands in elsewhere.
#include "lockstep/device/gpu.h"

#include <cuda_runtime_api.h>

#include <array>

namespace lockstep::device {
namespace {

int index_of(at::Device device) { return device.has_index() ? device.index() : 0; }

// A call's error stays with the thread, where LibTorch would take it for one of its own.
bool succeeded(cudaError_t error) {
  return error == cudaSuccess || (static_cast<void>(cudaGetLastError()), false);
}

}  // namespace

std::string gpu_name(at::Device device) {
  cudaDeviceProp properties{};
  const bool is_told =
      device.is_cuda() && succeeded(cudaGetDeviceProperties(&properties, index_of(device)));
  return is_told ? properties.name : "";
}

std::string pci_bus_id(at::Device device) {
  std::array<char, 32> text{};
  const bool is_told =
      device.is_cuda() && succeeded(cudaDeviceGetPCIBusId(
                              text.data(), static_cast<int>(text.size()), index_of(device)));
  return is_told ? text.data() : "";
}

}  // namespace lockstep::device
