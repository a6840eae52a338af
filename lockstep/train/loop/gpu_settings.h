// How a GPU computes: rounding to TF32, cuDNN's choice of algorithms, the same bits each time.
#pragma once

#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"

namespace lockstep::train {

// For this process. Call it before anything runs on a GPU.
void apply_gpu_settings(const TrainConfig& config);

// Precision, layout, rounding, algorithms, and whether steps are to be recorded: "amp bf16,
// channels_last, TF32 in convolutions, ...".
std::string describe_computing(const TrainConfig& config, const BatchPlan& batches);

// The same for the screen, behind the GPU's name; empty on the CPU.
std::string describe_gpu(const TrainConfig& config, const BatchPlan& batches, const Group& world);

// What became of the recording that describe_gpu() announces, in words, once: whether a step can be
// recorded shows when it is tried.
class RecordingNews {
 public:
  // `is_tried`: steps are to be recorded.
  explicit RecordingNews(bool is_tried) : is_open_(is_tried) {}

  struct News {
    std::string text;  // Empty: there are none.
    bool is_warning = false;
  };
  // After a step. `why_eager` as GraphedStep tells it.
  News after_step(bool is_recorded, const std::string& why_eager);

 private:
  bool is_open_;
};

// Whether steps on this device are to be recorded: on a GPU, unless a flag is against it
// (--no-cuda-graph, or one that needs the host in the step).
bool records_steps(const TrainConfig& config, const BatchPlan& batches, const at::Device& device);

}  // namespace lockstep::train
