// What a GPU is called.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace lockstep::device {

// "NVIDIA H200"; empty if `device` is no GPU, or the driver does not say.
std::string gpu_name(at::Device device);

// "0000:3b:00.0", by which the driver knows it whatever CUDA_VISIBLE_DEVICES says; empty if
// `device` is no GPU, or the driver does not say.
std::string pci_bus_id(at::Device device);

}  // namespace lockstep::device
