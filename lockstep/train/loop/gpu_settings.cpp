#include "lockstep/train/loop/gpu_settings.h"

#include <ATen/Context.h>

#include <cstdlib>

#include "lockstep/device/gpu.h"
#include "lockstep/train/loop/nonfinite.h"

namespace lockstep::train {
namespace {

// The flag for whose sake steps on a GPU are not recorded; empty: none.
std::string flag_against_recording(const TrainConfig& config, const BatchPlan& batches) {
  if (!config.cuda_graph) {
    return "--no-cuda-graph";
  }
  if (batches.accumulation > 1) {
    return "--grad-accum";
  }
  return checks_gradients(config, at::kCUDA) ? "--nonfinite " + config.nonfinite : "";
}

}  // namespace

void apply_gpu_settings(const TrainConfig& config) {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(config.tf32 == "on");
  context.setAllowTF32CuDNN(config.tf32 != "off");
  context.setBenchmarkCuDNN(config.cudnn_benchmark && !config.deterministic);
  context.setDeterministicCuDNN(config.deterministic);
  if (config.deterministic) {
    // LibTorch refuses cuBLAS without it; a value that the user chose stays.
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
}

bool records_steps(const TrainConfig& config, const BatchPlan& batches, const at::Device& device) {
  return device.is_cuda() && flag_against_recording(config, batches).empty();
}

RecordingNews::News RecordingNews::after_step(bool is_recorded, const std::string& why_eager) {
  if (!is_open_ || (!is_recorded && why_eager.empty())) {
    return {};
  }
  is_open_ = false;
  return is_recorded ? News{"steps are recorded as a CUDA graph now"}
                     : News{"steps run eagerly, since they cannot be recorded as a CUDA graph: " +
                                why_eager,
                            true};
}

std::string describe_computing(const TrainConfig& config, const BatchPlan& batches) {
  const std::string precision =
      config.amp.empty() || config.amp == "O0" ? "float32" : "amp " + config.amp;
  const std::string layout = config.channels_last ? "channels_last" : "contiguous";
  const std::string tf32 = config.tf32 == "off"    ? "no TF32"
                           : config.tf32 == "conv" ? "TF32 in convolutions"
                                                   : "TF32";
  const std::string algorithms = config.deterministic     ? "deterministic algorithms"
                                 : config.cudnn_benchmark ? "cuDNN's fastest algorithms"
                                                          : "cuDNN's default algorithms";
  const auto flag = flag_against_recording(config, batches);
  const std::string steps =
      flag.empty() ? "steps to be recorded as a CUDA graph" : "steps run eagerly (" + flag + ")";
  return precision + ", " + layout + ", " + tf32 + ", " + algorithms + ", " + steps;
}

std::string describe_gpu(const TrainConfig& config, const BatchPlan& batches, const Group& world) {
  if (!world.device().is_cuda()) {
    return "";
  }
  const auto name = device::gpu_name(world.device());
  return (name.empty() ? "GPU" : name) + ": " + describe_computing(config, batches);
}

}  // namespace lockstep::train
