// The optimizer, the schedule of its rate and the precision that a config asks for.
#pragma once

#include <memory>

#include "lockstep/train/amp/opt_level.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/optim/lr_scheduler.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep::train {

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, double lr,
                                                 std::vector<at::Tensor> params);

// It steps after each update, so it is made of steps: a warm-up, if any, and what follows. The
// optimizer must live longer.
std::shared_ptr<optim::LRScheduler> make_scheduler(const TrainConfig& config,
                                                   optim::Optimizer& optimizer,
                                                   std::int64_t steps_per_epoch);

// "bf16" and "fp16" are O1 with that type; O0 if empty.
amp::MixedPrecisionOptions precision_of(const TrainConfig& config);

// To --clip-grad, if that is given.
void clip_gradients(const TrainConfig& config, const std::vector<at::Tensor>& params);

}  // namespace lockstep::train
