#include "lockstep/launch/command/machine.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

constexpr int kMostWorkers = 4096;  // Each costs a process and up to five descriptors.

int count_gpus(const std::string& device_folder) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(device_folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (name.starts_with("nvidia") && parse_int(name.substr(6))) {
      ++count;
    }
  }
  return count;
}

int count_visible(const Environment& environment, int gpus) {
  const auto found = environment.variables().find("CUDA_VISIBLE_DEVICES");
  if (found == environment.variables().end()) {
    return gpus;
  }
  int visible = 0;
  for (const auto& id : split(found->second, ',')) {
    if (trim(id).empty() || trim(id) == "-1") {
      break;  // CUDA ignores everything from the first invalid entry on.
    }
    ++visible;
  }
  return std::min(visible, gpus);
}

}  // namespace

Machine this_machine(const Environment& environment, const std::string& device_folder) {
  Machine machine;
  machine.cores = usable_cores();
  machine.gpus = count_gpus(device_folder);
  machine.visible_gpus = count_visible(environment, machine.gpus);
  return machine;
}

int parse_worker_count(std::string_view text, const Machine& machine) {
  if (text == "cpu" || (text == "auto" && machine.visible_gpus == 0)) {
    return machine.cores;
  }
  if (text == "auto") {
    return machine.visible_gpus;
  }
  if (text == "gpu") {
    if (machine.visible_gpus == 0) {
      throw UsageError(
          "--nproc-per-node is 'gpu', but this machine has no usable GPU (no /dev/nvidia0, or "
          "CUDA_VISIBLE_DEVICES hides it)\nHINT: --nproc-per-node cpu, or a number");
    }
    return machine.visible_gpus;
  }
  const auto number = parse_int(text);
  if (!number || *number < 1 || *number > kMostWorkers) {
    throw UsageError("--nproc-per-node is '" + std::string(text) +
                     "', expected a number from 1 to " + std::to_string(kMostWorkers) +
                     ", or auto, gpu or cpu");
  }
  return static_cast<int>(*number);
}

std::vector<int> parse_gpu_ids(std::string_view text, const Machine& machine) {
  if (machine.gpus == 0) {
    throw UsageError("--gpu-ids is '" + std::string(text) +
                     "', but this machine has no GPU (no /dev/nvidia0)");
  }
  std::vector<int> ids;
  for (const auto& part : split(text, ',')) {
    const auto id = parse_int(trim(part));
    if (!id || *id < 0 || *id >= machine.gpus) {
      throw UsageError("--gpu-ids is '" + std::string(text) + "': there is no GPU '" + part +
                       "', expected numbers from 0 to " + std::to_string(machine.gpus - 1));
    }
    if (std::find(ids.begin(), ids.end(), static_cast<int>(*id)) != ids.end()) {
      throw UsageError("--gpu-ids is '" + std::string(text) + "': GPU " + part +
                       " is listed twice");
    }
    ids.push_back(static_cast<int>(*id));
  }
  return ids;
}

}  // namespace lockstep::launch
