// How the samples of an epoch make steps: pure arithmetic, the same on every rank.
#pragma once

#include <cstdint>

#include "lockstep/train/config/config.h"

namespace lockstep::train {

// A step takes the next `global` samples of the epoch's order, whatever the number of ranks; what
// is left at the epoch's end is left out.
struct BatchPlan {
  std::int64_t per_rank = 0;  // Samples of one backward pass of a rank.
  std::int64_t accumulation = 1;
  std::int64_t global = 0;  // Samples of a step.
  std::int64_t steps_per_epoch = 0;
  std::int64_t validation = 0;  // Samples of one forward pass of a rank in validation.
};

// Throws UsageError that says which flag to change if the global batch cannot be divided among the
// ranks, or is larger than the data set.
BatchPlan plan_batches(const TrainConfig& config, std::int64_t samples, std::int64_t world_size);

// --lr, or --lr-base scaled to the global batch, or the optimizer's default.
double initial_lr(const TrainConfig& config, const BatchPlan& batches);

}  // namespace lockstep::train
