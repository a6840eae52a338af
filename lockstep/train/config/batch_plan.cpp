#include "lockstep/train/config/batch_plan.h"

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/samplers/global_batch.h"
#include "lockstep/train/optim/lr_scheduler.h"

namespace lockstep::train {
namespace {

bool is_adam(const TrainConfig& config) { return config.opt == "adam" || config.opt == "adamw"; }

}  // namespace

BatchPlan plan_batches(const TrainConfig& config, std::int64_t samples, std::int64_t world_size) {
  BatchPlan plan;
  plan.accumulation = config.grad_accum;
  plan.per_rank = config.batch_size;
  if (config.global_batch_size > 0) {
    plan.per_rank =
        data::batch_size_per_rank({config.global_batch_size, world_size, config.grad_accum});
    // A file of all settings has the default, too.
    if (config.batch_size != TrainConfig{}.batch_size && config.batch_size != plan.per_rank) {
      throw UsageError("--batch-size is " + std::to_string(config.batch_size) +
                       ", but --global-batch-size " + std::to_string(config.global_batch_size) +
                       " is " + std::to_string(plan.per_rank) + " for each of " +
                       counted(world_size, "rank") + " and " + counted(plan.accumulation, "pass") +
                       "; expected one of them, or that they agree; HINT: leave "
                       "--batch-size out");
    }
  }
  plan.global = plan.per_rank * world_size * plan.accumulation;
  plan.steps_per_epoch = samples / plan.global;
  if (plan.steps_per_epoch == 0) {
    const bool is_global = config.global_batch_size > 0;
    const auto per_rank = samples / (world_size * plan.accumulation);
    const auto fitting = is_global ? per_rank * world_size * plan.accumulation : per_rank;
    const std::string hint =
        per_rank == 0
            ? "fewer ranks or a smaller --grad-accum"
            : (is_global ? "--global-batch-size " : "--batch-size ") + std::to_string(fitting);
    throw UsageError("the batch of a step is " + std::to_string(plan.global) + " samples (" +
                     std::to_string(plan.per_rank) + " x " + counted(world_size, "rank") + " x " +
                     counted(plan.accumulation, "pass") + "), but there are only " +
                     counted(samples, "training sample") + "; HINT: " + hint);
  }
  if (config.fast_dev_run > 0) {
    plan.steps_per_epoch = std::min(plan.steps_per_epoch, config.fast_dev_run);
  }
  plan.validation = config.validation_batch_size > 0 ? config.validation_batch_size : plan.per_rank;
  return plan;
}

double initial_lr(const TrainConfig& config, const BatchPlan& batches) {
  if (config.lr_base > 0) {
    const auto scale = is_adam(config) ? optim::LrScale::kSqrt : optim::LrScale::kLinear;
    return optim::scaled_lr(config.lr_base, batches.global, {config.lr_base_size, scale});
  }
  return config.lr > 0 ? config.lr : is_adam(config) ? 0.001 : 0.02;
}

}  // namespace lockstep::train
