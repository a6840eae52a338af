#include "lockstep/train/run/gpu_monitor.h"

#include <dlfcn.h>

namespace lockstep::train {
namespace {

constexpr int kSuccess = 0;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// What of nvml.h is used, so that its header is not needed. What NVIDIA changed since 2011 has a
// new name with a version in it.
struct GpuMonitor::Library {
  using Device = struct nvmlDevice_st*;
  struct Utilization {
    unsigned gpu;
    unsigned memory;
  };
  struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };

  void* handle = nullptr;
  Device device = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*find_device)(const char*, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;  // Milliwatts.
  bool is_open = false;

  ~Library() {
    if (is_open) {
      shutdown();
    }
    if (handle != nullptr) {
      ::dlclose(handle);
    }
  }

  // What is missing; empty if nothing is.
  std::string open(const std::string& name, const std::string& pci_bus_id) {
    handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      return why != nullptr ? why : "'" + name + "' cannot be loaded";
    }
    if (!find(handle, "nvmlInit_v2", init) || !find(handle, "nvmlShutdown", shutdown) ||
        !find(handle, "nvmlErrorString", error_text) ||
        !find(handle, "nvmlDeviceGetHandleByPciBusId_v2", find_device) ||
        !find(handle, "nvmlDeviceGetUtilizationRates", utilization) ||
        !find(handle, "nvmlDeviceGetMemoryInfo", memory) ||
        !find(handle, "nvmlDeviceGetPowerUsage", power)) {
      return "'" + name + "' is no library of the NVIDIA driver that is known here";
    }
    if (const int error = init(); error != kSuccess) {
      return "'" + name + "': " + error_text(error);
    }
    is_open = true;
    if (const int error = find_device(pci_bus_id.c_str(), &device); error != kSuccess) {
      return "the GPU at '" + pci_bus_id + "': " + error_text(error);
    }
    return "";
  }
};

GpuMonitor::GpuMonitor(const std::string& pci_bus_id, const std::string& library)
    : library_(std::make_unique<Library>()) {
  why_not_ = library_->open(library, pci_bus_id);
  if (!why_not_.empty()) {
    library_.reset();
  }
}

GpuMonitor::~GpuMonitor() = default;

GpuUse GpuMonitor::read() const {
  GpuUse use;
  if (!library_) {
    return use;
  }
  if (Library::Utilization busy{}; library_->utilization(library_->device, &busy) == kSuccess) {
    use.utilization = static_cast<int>(busy.gpu);
  }
  if (Library::Memory memory{}; library_->memory(library_->device, &memory) == kSuccess) {
    use.memory_bytes = memory.used;
    use.memory_total = memory.total;
  }
  if (unsigned milliwatts = 0; library_->power(library_->device, &milliwatts) == kSuccess) {
    use.watts = milliwatts / 1000.0;
  }
  return use;
}

}  // namespace lockstep::train
