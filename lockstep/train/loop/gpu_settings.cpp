#include "lockstep/train/loop/gpu_settings.h"

#include <ATen/Context.h>

#include <cstdlib>

#include "lockstep/device/gpu.h"

namespace lockstep::train {

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
  return device.is_cuda() && config.cuda_graph && batches.accumulation == 1;
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

std::string describe_gpu(const TrainConfig& config, const BatchPlan& batches, const Group& world) {
  if (!world.device().is_cuda()) {
    return "";
  }
  const std::string tf32 = config.tf32 == "off"    ? "float32 without TF32"
                           : config.tf32 == "conv" ? "TF32 in convolutions"
                                                   : "TF32";
  const std::string algorithms = config.deterministic     ? "deterministic algorithms"
                                 : config.cudnn_benchmark ? "cuDNN's fastest algorithms"
                                                          : "cuDNN's default algorithms";
  const std::string steps = !config.cuda_graph         ? "steps run eagerly (--no-cuda-graph)"
                            : batches.accumulation > 1 ? "steps run eagerly (--grad-accum)"
                                                       : "steps to be recorded as a CUDA graph";
  const auto name = device::gpu_name(world.device());
  return (name.empty() ? "GPU" : name) + ": " + tf32 + ", " + algorithms + ", " + steps;
}

}  // namespace lockstep::train
