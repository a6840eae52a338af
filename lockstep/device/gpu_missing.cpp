#include "lockstep/device/gpu.h"

namespace lockstep::device {

std::string gpu_name(at::Device /*device*/) { return ""; }

std::string pci_bus_id(at::Device /*device*/) { return ""; }

}  // namespace lockstep::device
