#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/lr_scheduler.h"

namespace lockstep::optim {

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<FormulaLR>> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  if (schedulers_.empty() || milestones_.size() + 1 != schedulers_.size()) {
    throw UsageError("SequentialLR: " + std::to_string(schedulers_.size()) + " schedules with " +
                     std::to_string(milestones_.size()) +
                     " milestones, expected one milestone less than schedules");
  }
  for (const auto& scheduler : schedulers_) {
    if (scheduler == nullptr || &scheduler->optimizer() != &optimizer) {
      throw UsageError("SequentialLR: a schedule of another optimizer, expected all of this one");
    }
  }
  last_epoch_ = 0;
  // Each schedule set the rates of its own epoch 0 when it was made; the first does so again.
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    optimizer.set_lr(group, optimizer.initial_lr(group));
  }
  for (const auto& scheduler : schedulers_) {
    --scheduler->last_epoch_;
  }
  auto& first = *schedulers_[current()];
  first.start();
  last_lr_ = first.get_last_lr();
}

// The schedule of this epoch.
std::size_t SequentialLR::current() const {
  return static_cast<std::size_t>(
      std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_) - milestones_.begin());
}

void SequentialLR::step() {
  ++last_epoch_;
  const auto index = current();
  auto& scheduler = *schedulers_[index];
  if (index > 0 && milestones_[index - 1] == last_epoch_) {
    scheduler.restart();
  } else {
    scheduler.step();
  }
  last_lr_ = scheduler.get_last_lr();
}

SchedulerState SequentialLR::state_dict() const {
  SchedulerState state{
      {{"_milestones", milestones_}, {"last_epoch", last_epoch_}, {"_last_lr", last_lr_}}, {}};
  for (const auto& scheduler : schedulers_) {
    state.schedulers.push_back(scheduler->state_dict());
  }
  return state;
}

void SequentialLR::load_state_dict(const SchedulerState& state) {
  const auto get = [&]<class Value>(const char* name, const Value*) -> const Value& {
    const auto found = state.values.find(name);
    const auto* value = found == state.values.end() ? nullptr : std::get_if<Value>(&found->second);
    if (value == nullptr) {
      throw UsageError(std::string("SequentialLR: the state has no '") + name + "'");
    }
    return *value;
  };
  const auto& milestones = get("_milestones", static_cast<std::vector<std::int64_t>*>(nullptr));
  const auto last_epoch = get("last_epoch", static_cast<std::int64_t*>(nullptr));
  const auto& last_lr = get("_last_lr", static_cast<std::vector<double>*>(nullptr));
  if (state.schedulers.size() != schedulers_.size() || milestones.size() != milestones_.size()) {
    throw UsageError("SequentialLR: a state of " + std::to_string(state.schedulers.size()) +
                     " schedules, expected " + std::to_string(schedulers_.size()));
  }
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    schedulers_[i]->load_state_dict(state.schedulers[i]);
  }
  milestones_ = milestones;
  last_epoch_ = last_epoch;
  last_lr_ = last_lr;
}

double scaled_lr(double base_lr, std::int64_t global_batch_size, const ScaledLrOptions& options) {
  if (global_batch_size <= 0 || options.base_size <= 0) {
    throw UsageError("scaled_lr: a global batch of " + std::to_string(global_batch_size) +
                     " with a base of " + std::to_string(options.base_size) +
                     ", expected both to be positive");
  }
  const double ratio =
      static_cast<double>(global_batch_size) / static_cast<double>(options.base_size);
  return base_lr * (options.scale == LrScale::kSqrt ? std::pow(ratio, 0.5) : ratio);
}

}  // namespace lockstep::optim
