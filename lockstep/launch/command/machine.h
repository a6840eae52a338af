// What this machine offers to workers: cores and GPUs. No CUDA library is loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::launch {

struct Machine {
  int cores = 1;
  int gpus = 0;          // Device files, whether or not CUDA_VISIBLE_DEVICES shows them.
  int visible_gpus = 0;  // The same, cut by CUDA_VISIBLE_DEVICES.
};

// GPUs are counted as /dev/nvidia0, /dev/nvidia1, ...
Machine this_machine(const Environment& environment, const std::string& device_folder = "/dev");

// --nproc-per-node: a number, "auto" (GPUs, else cores), "gpu" or "cpu". Throws UsageError.
int parse_worker_count(std::string_view text, const Machine& machine);

// --gpu-ids: "1,6,3". Throws UsageError for an id that is absent or given twice, or without GPUs.
std::vector<int> parse_gpu_ids(std::string_view text, const Machine& machine);

}  // namespace lockstep::launch
