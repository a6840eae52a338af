// Asks the NVIDIA driver how busy a GPU is.
//
// The driver's library (NVML) is loaded when the program runs, so that one program serves machines
// with and without it.
#pragma once

#include <memory>
#include <string>

#include "lockstep/train/run/gpu_use.h"

namespace lockstep::train {

class GpuMonitor {
 public:
  // `pci_bus_id` as CUDA tells it, "0000:3b:00.0": numbers of GPUs mean different ones to CUDA and
  // the driver. Without library, driver or such a GPU every read() is empty; nothing throws.
  explicit GpuMonitor(const std::string& pci_bus_id,
                      const std::string& library = "libnvidia-ml.so.1");
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // Takes some ten microseconds. Values that the GPU does not tell are empty.
  [[nodiscard]] GpuUse read() const;
  // Why there is nothing to read; empty if there is.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  struct Library;
  std::unique_ptr<Library> library_;  // None if there is nothing to read.
  std::string why_not_;
};

}  // namespace lockstep::train
