#include "lockstep/train/loop/recipe.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/clip_grad.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::train {
namespace {

std::int64_t in_steps(double epochs, std::int64_t steps_per_epoch) {
  return std::llround(epochs * static_cast<double>(steps_per_epoch));
}

std::shared_ptr<optim::FormulaLR> linear_to_end(const TrainConfig& config,
                                                optim::Optimizer& optimizer, std::int64_t steps) {
  const double lr = optimizer.initial_lr(0);
  if (config.min_lr > lr) {
    throw UsageError("--min-lr is " + std::to_string(config.min_lr) +
                     ", expected at most the learning rate of " + std::to_string(lr) +
                     ", because --sched linear falls; HINT: leave --min-lr out");
  }
  return std::make_shared<optim::LinearLR>(
      optimizer, optim::LinearLROptions{.start_factor = 1,
                                        .end_factor = lr > 0 ? config.min_lr / lr : 1,
                                        .total_iters = std::max<std::int64_t>(1, steps)});
}

// `steps` from the warm-up's end to the end of training.
std::shared_ptr<optim::FormulaLR> main_schedule(const TrainConfig& config,
                                                optim::Optimizer& optimizer,
                                                std::int64_t steps_per_epoch, std::int64_t steps) {
  if (config.sched == "cosine") {
    return std::make_shared<optim::CosineAnnealingLR>(
        optimizer,
        optim::CosineAnnealingLROptions{std::max<std::int64_t>(1, steps), config.min_lr});
  }
  if (config.sched == "linear") {
    return linear_to_end(config, optimizer, steps);
  }
  if (config.sched == "step") {
    const auto size = std::max<std::int64_t>(1, in_steps(config.decay_epochs, steps_per_epoch));
    return std::make_shared<optim::StepLR>(optimizer,
                                           optim::StepLROptions{size, config.decay_rate});
  }
  if (config.sched == "multistep") {
    optim::MultiStepLROptions options{{}, config.decay_rate};
    for (const auto epoch : config.decay_milestones) {
      options.milestones.push_back(epoch * steps_per_epoch);
    }
    return std::make_shared<optim::MultiStepLR>(optimizer, options);
  }
  if (config.sched == "constant") {  // A MultiStepLR without milestones.
    return std::make_shared<optim::MultiStepLR>(optimizer,
                                                optim::MultiStepLROptions{{}, config.decay_rate});
  }
  throw UsageError("make_scheduler: sched is '" + config.sched +
                   "', expected cosine, linear, step, multistep or constant");
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, double lr,
                                                 std::vector<at::Tensor> params) {
  if (config.opt == "adam") {
    return std::make_unique<optim::Adam>(
        std::move(params), optim::AdamOptions{.lr = lr, .weight_decay = config.weight_decay});
  }
  if (config.opt == "adamw") {
    return std::make_unique<optim::AdamW>(
        std::move(params), optim::AdamWOptions{.lr = lr, .weight_decay = config.weight_decay});
  }
  return std::make_unique<optim::SGD>(std::move(params),
                                      optim::SGDOptions{.lr = lr,
                                                        .momentum = config.momentum,
                                                        .weight_decay = config.weight_decay,
                                                        .nesterov = config.opt == "nesterov"});
}

std::shared_ptr<optim::LRScheduler> make_scheduler(const TrainConfig& config,
                                                   optim::Optimizer& optimizer,
                                                   std::int64_t steps_per_epoch) {
  const std::int64_t total = config.epochs * steps_per_epoch;
  const std::int64_t warmup = std::min(total, in_steps(config.warmup_epochs, steps_per_epoch));
  if (warmup == 0) {
    return main_schedule(config, optimizer, steps_per_epoch, total);
  }
  // LinearLR rejects 0, as Python's does.
  const double start = std::clamp(config.warmup_lr / optimizer.lr(), 1e-12, 1.0);
  auto linear = std::make_shared<optim::LinearLR>(
      optimizer,
      optim::LinearLROptions{.start_factor = start, .end_factor = 1, .total_iters = warmup});
  std::vector<std::shared_ptr<optim::FormulaLR>> schedules{
      std::move(linear), main_schedule(config, optimizer, steps_per_epoch, total - warmup)};
  return std::make_shared<optim::SequentialLR>(optimizer, std::move(schedules),
                                               std::vector<std::int64_t>{warmup});
}

amp::MixedPrecisionOptions precision_of(const TrainConfig& config) {
  if (config.amp.empty()) {
    return {.level = amp::OptLevel::kO0};
  }
  if (config.amp == "bf16" || config.amp == "fp16") {
    return {.level = amp::OptLevel::kO1, .type = config.amp == "bf16" ? at::kBFloat16 : at::kHalf};
  }
  return {.level = amp::parse_opt_level(config.amp)};
}

void clip_gradients(const TrainConfig& config, const std::vector<at::Tensor>& params) {
  if (config.clip_grad <= 0) {
    return;
  }
  if (config.clip_mode == "value") {
    optim::clip_grad_value_(params, config.clip_grad);
  } else {
    optim::clip_grad_norm_(params, config.clip_grad);
  }
}

}  // namespace lockstep::train
