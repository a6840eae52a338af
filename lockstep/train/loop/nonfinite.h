// What a run does about numbers that are infinite or NaN: --nonfinite.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

#include "lockstep/train/config/config.h"
#include "lockstep/train/report/tally.h"

namespace lockstep::train {

// Whether each rank looks at its gradients in each step. To do so on a GPU the host waits for it,
// so there only --nonfinite skip does, and its steps are not recorded; with abort, NaN is noticed
// in the losses, which the device keeps a record of.
bool checks_gradients(const TrainConfig& config, at::Device device);

// Throw Error with step, rank or parameter, and what to do. `ranks` has each rank's sums up to
// `step`; a step adds `samples_per_step` samples to them, which tells the rank and the step that
// had the first bad loss.
void require_finite_losses(const TrainConfig& config, std::int64_t step,
                           const std::vector<Tally::Sums>& ranks, std::int64_t samples_per_step);
// On a GPU, waits for it.
void require_finite_weights(const TrainConfig& config, std::int64_t step,
                            const torch::nn::Module& module);

}  // namespace lockstep::train
