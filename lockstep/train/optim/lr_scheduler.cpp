#include "lockstep/train/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"

// Products, quotients and sums are in the order of Python's: the last bits depend on it.
namespace lockstep::optim {
namespace {

constexpr double kPi = std::numbers::pi;

template <class Value>
const Value& value_of(const SchedulerState& state, const char* name) {
  const auto found = state.values.find(name);
  const auto* value = found == state.values.end() ? nullptr : std::get_if<Value>(&found->second);
  if (value == nullptr) {
    throw UsageError(std::string("LRScheduler: the state has no '") + name +
                     "', or one of another kind; expected the state of the same schedule");
  }
  return *value;
}

// Python's numbers are integers where they were written so.
double number_of(const SchedulerState& state, const char* name) {
  const auto found = state.values.find(name);
  if (found != state.values.end()) {
    if (const auto* integer = std::get_if<std::int64_t>(&found->second)) {
      return static_cast<double>(*integer);
    }
  }
  return value_of<double>(state, name);
}

void require_rates(const std::vector<double>& rates, const Optimizer& optimizer) {
  if (rates.size() != optimizer.groups()) {
    throw UsageError("LRScheduler: a state of " + std::to_string(rates.size()) +
                     " parameter groups, expected " + std::to_string(optimizer.groups()));
  }
}

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw UsageError(what);
  }
}

// Constructors and loaded states are checked: a step_size of 0 would end the process.
StepLROptions sensible(const StepLROptions& options) {
  require(options.step_size > 0,
          "StepLR: step_size is " + std::to_string(options.step_size) + ", expected more than 0");
  return options;
}

CosineAnnealingLROptions sensible(const CosineAnnealingLROptions& options) {
  require(options.t_max > 0, "CosineAnnealingLR: t_max is " + std::to_string(options.t_max) +
                                 ", expected more than 0");
  return options;
}

LinearLROptions sensible(const LinearLROptions& options) {
  require(options.start_factor > 0 && options.start_factor <= 1,
          "LinearLR: start_factor is " + std::to_string(options.start_factor) +
              ", expected more than 0, at most 1");
  require(options.end_factor >= 0 && options.end_factor <= 1,
          "LinearLR: end_factor is " + std::to_string(options.end_factor) + ", expected 0 to 1");
  require(
      options.total_iters > 0,
      "LinearLR: total_iters is " + std::to_string(options.total_iters) + ", expected more than 0");
  return options;
}

}  // namespace

FormulaLR::FormulaLR(Optimizer& optimizer) : LRScheduler(optimizer) {
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    base_lrs_.push_back(optimizer.initial_lr(group));
  }
}

void FormulaLR::start() {
  step_count_ = 0;
  is_initial_ = true;
  step();
  is_initial_ = false;
}

void FormulaLR::step() {
  ++step_count_;
  ++last_epoch_;
  std::vector<double> rates;
  for (std::size_t group = 0; group < base_lrs_.size(); ++group) {
    rates.push_back(next_lr(optimizer().lr(group), base_lrs_[group]));
  }
  set_rates(rates);
}

void FormulaLR::restart() {
  last_epoch_ = 0;
  std::vector<double> rates;
  for (const double base_lr : base_lrs_) {
    rates.push_back(closed_form_lr(base_lr));
  }
  set_rates(rates);
}

void FormulaLR::set_rates(const std::vector<double>& rates) {
  for (std::size_t group = 0; group < rates.size(); ++group) {
    optimizer().set_lr(group, rates[group]);
  }
  last_lr_ = rates;
}

SchedulerState FormulaLR::state_dict() const {
  SchedulerState state{options(), {}};
  state.values["base_lrs"] = base_lrs_;
  state.values["last_epoch"] = last_epoch_;
  state.values["_step_count"] = step_count_;
  state.values["_is_initial"] = false;
  state.values["_get_lr_called_within_step"] = false;
  state.values["_last_lr"] = last_lr_;
  return state;
}

void FormulaLR::load_state_dict(const SchedulerState& state) {
  const auto& base_lrs = value_of<std::vector<double>>(state, "base_lrs");
  const auto& last_lr = value_of<std::vector<double>>(state, "_last_lr");
  const auto last_epoch = value_of<std::int64_t>(state, "last_epoch");
  const auto step_count = value_of<std::int64_t>(state, "_step_count");
  require_rates(base_lrs, optimizer());
  require_rates(last_lr, optimizer());
  set_options(state);
  base_lrs_ = base_lrs;
  last_lr_ = last_lr;
  last_epoch_ = last_epoch;
  step_count_ = step_count;
}

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : FormulaLR(optimizer), options_(sensible(options)) {
  start();
}

double StepLR::next_lr(double lr, double /*base_lr*/) const {
  return last_epoch_ == 0 || last_epoch_ % options_.step_size != 0 ? lr : lr * options_.gamma;
}

double StepLR::closed_form_lr(double base_lr) const {
  const auto decays = last_epoch_ / options_.step_size;
  return base_lr * std::pow(options_.gamma, static_cast<double>(decays));
}

std::map<std::string, SchedulerValue> StepLR::options() const {
  return {{"step_size", options_.step_size}, {"gamma", options_.gamma}};
}

void StepLR::set_options(const SchedulerState& state) {
  options_ = sensible(StepLROptions{.step_size = value_of<std::int64_t>(state, "step_size"),
                                    .gamma = number_of(state, "gamma")});
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options)
    : FormulaLR(optimizer), gamma_(options.gamma) {
  for (const auto milestone : options.milestones) {
    ++milestones_[milestone];
  }
  start();
}

double MultiStepLR::next_lr(double lr, double /*base_lr*/) const {
  const auto found = milestones_.find(last_epoch_);
  return found == milestones_.end() ? lr
                                    : lr * std::pow(gamma_, static_cast<double>(found->second));
}

double MultiStepLR::closed_form_lr(double base_lr) const {
  std::int64_t passed = 0;
  for (const auto& [milestone, count] : milestones_) {
    passed += milestone <= last_epoch_ ? count : 0;
  }
  return base_lr * std::pow(gamma_, static_cast<double>(passed));
}

std::map<std::string, SchedulerValue> MultiStepLR::options() const {
  return {{"milestones", milestones_}, {"gamma", gamma_}};
}

void MultiStepLR::set_options(const SchedulerState& state) {
  const auto gamma = number_of(state, "gamma");
  milestones_ = value_of<std::map<std::int64_t, std::int64_t>>(state, "milestones");
  gamma_ = gamma;
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : FormulaLR(optimizer), options_(sensible(options)) {
  start();
}

double CosineAnnealingLR::next_lr(double lr, double base_lr) const {
  const auto t_max = static_cast<double>(options_.t_max);
  const double eta_min = options_.eta_min;
  if (is_initial_) {
    return lr;
  }
  if (step_count_ == 1 && last_epoch_ > 0) {
    return eta_min + (base_lr - eta_min) * (1 + std::cos(epoch() * kPi / t_max)) / 2;
  }
  if ((last_epoch_ - 1 - options_.t_max) % (2 * options_.t_max) == 0) {
    return lr + (base_lr - eta_min) * (1 - std::cos(kPi / t_max)) / 2;
  }
  return (1 + std::cos(kPi * epoch() / t_max)) / (1 + std::cos(kPi * (epoch() - 1) / t_max)) *
             (lr - eta_min) +
         eta_min;
}

double CosineAnnealingLR::closed_form_lr(double base_lr) const {
  const auto t_max = static_cast<double>(options_.t_max);
  return options_.eta_min +
         (base_lr - options_.eta_min) * (1 + std::cos(kPi * epoch() / t_max)) / 2;
}

std::map<std::string, SchedulerValue> CosineAnnealingLR::options() const {
  return {{"T_max", options_.t_max}, {"eta_min", options_.eta_min}};
}

void CosineAnnealingLR::set_options(const SchedulerState& state) {
  options_ = sensible(CosineAnnealingLROptions{.t_max = value_of<std::int64_t>(state, "T_max"),
                                               .eta_min = number_of(state, "eta_min")});
}

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : FormulaLR(optimizer), options_(sensible(options)) {
  start();
}

double LinearLR::next_lr(double lr, double /*base_lr*/) const {
  if (last_epoch_ == 0) {
    return lr * options_.start_factor;
  }
  if (is_initial_ || last_epoch_ > options_.total_iters) {
    return lr;
  }
  const double change = options_.end_factor - options_.start_factor;
  return lr * (1.0 + change / (static_cast<double>(options_.total_iters) * options_.start_factor +
                               (epoch() - 1) * change));
}

double LinearLR::closed_form_lr(double base_lr) const {
  const auto done = static_cast<double>(std::min(options_.total_iters, last_epoch_));
  return base_lr * (options_.start_factor + (options_.end_factor - options_.start_factor) * done /
                                                static_cast<double>(options_.total_iters));
}

std::map<std::string, SchedulerValue> LinearLR::options() const {
  return {{"start_factor", options_.start_factor},
          {"end_factor", options_.end_factor},
          {"total_iters", options_.total_iters}};
}

void LinearLR::set_options(const SchedulerState& state) {
  options_ = sensible(LinearLROptions{.start_factor = number_of(state, "start_factor"),
                                      .end_factor = number_of(state, "end_factor"),
                                      .total_iters = value_of<std::int64_t>(state, "total_iters")});
}

}  // namespace lockstep::optim
