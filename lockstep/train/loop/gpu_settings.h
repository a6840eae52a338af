// How a GPU computes: rounding to TF32, cuDNN's choice of algorithms, the same bits each time.
#pragma once

#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/loop/batch_plan.h"
#include "lockstep/train/loop/config.h"

namespace lockstep::train {

// For this process. Call it before anything runs on a GPU.
void apply_gpu_settings(const TrainConfig& config);

// One line for the screen: "NVIDIA H200: TF32 in convolutions, ..."; empty on the CPU.
std::string describe_gpu(const TrainConfig& config, const BatchPlan& batches, const Group& world);

}  // namespace lockstep::train
