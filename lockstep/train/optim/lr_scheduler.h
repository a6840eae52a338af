// Schedules of the learning rate, with the doubles of torch.optim.lr_scheduler.
//
//   CosineAnnealingLR cosine(optimizer, {.t_max = epochs});
//   ... after the steps of each epoch: cosine.step();
//
// For `lockstep train --sched` a schedule also needs its name in config/config.{h,cpp},
// loop/recipe.cpp and docs/reference/options.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {

using SchedulerValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>,
                                    std::vector<double>, std::map<std::int64_t, std::int64_t>>;

// The contents of Python's `state_dict()`. The learning rates themselves are in the optimizer's.
struct SchedulerState {
  std::map<std::string, SchedulerValue> values;
  std::vector<SchedulerState> schedulers;  // SequentialLR's "_schedulers".
};

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  // After the optimizer's steps of an epoch.
  virtual void step() = 0;
  [[nodiscard]] const std::vector<double>& get_last_lr() const { return last_lr_; }

  [[nodiscard]] virtual SchedulerState state_dict() const = 0;
  // Throws UsageError if a value is missing or of another kind, or an option is one that the
  // constructor refuses. Options come with the state, as in Python.
  virtual void load_state_dict(const SchedulerState& state) = 0;

 protected:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  [[nodiscard]] Optimizer& optimizer() const { return optimizer_; }

  std::int64_t last_epoch_ = -1;
  std::vector<double> last_lr_;

 private:
  Optimizer& optimizer_;
};

// A schedule by a formula. As in Python, each rate follows from the one before, so setting
// it in between changes all later rates. The optimizer must live longer. It starts with the rate
// that each group had when its first schedule was made.
class FormulaLR : public LRScheduler {
 public:
  void step() override;
  [[nodiscard]] SchedulerState state_dict() const override;
  void load_state_dict(const SchedulerState& state) override;

 protected:
  explicit FormulaLR(Optimizer& optimizer);
  // The last line of a constructor: sets the rates of epoch 0.
  void start();

  // The rate of this epoch from the one before.
  [[nodiscard]] virtual double next_lr(double lr, double base_lr) const = 0;
  // From nothing but the epoch.
  [[nodiscard]] virtual double closed_form_lr(double base_lr) const = 0;
  // What is special about the schedule, under Python's names.
  [[nodiscard]] virtual std::map<std::string, SchedulerValue> options() const = 0;
  virtual void set_options(const SchedulerState& state) = 0;

  [[nodiscard]] double epoch() const { return static_cast<double>(last_epoch_); }
  std::int64_t step_count_ = 0;
  bool is_initial_ = false;

 private:
  friend class SequentialLR;
  void restart();  // At epoch 0, by the closed form.
  void set_rates(const std::vector<double>& rates);

  std::vector<double> base_lrs_;
};

struct StepLROptions {
  std::int64_t step_size = 30;
  double gamma = 0.1;
};

// Times gamma after each `step_size` epochs.
class StepLR : public FormulaLR {
 public:
  explicit StepLR(Optimizer& optimizer, const StepLROptions& options = {});

 private:
  [[nodiscard]] double next_lr(double lr, double base_lr) const override;
  [[nodiscard]] double closed_form_lr(double base_lr) const override;
  [[nodiscard]] std::map<std::string, SchedulerValue> options() const override;
  void set_options(const SchedulerState& state) override;

  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;  // Epochs; one that is there twice counts twice.
  double gamma = 0.1;
};

class MultiStepLR : public FormulaLR {
 public:
  MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options);

 private:
  [[nodiscard]] double next_lr(double lr, double base_lr) const override;
  [[nodiscard]] double closed_form_lr(double base_lr) const override;
  [[nodiscard]] std::map<std::string, SchedulerValue> options() const override;
  void set_options(const SchedulerState& state) override;

  std::map<std::int64_t, std::int64_t> milestones_;  // How often each is there.
  double gamma_;
};

struct CosineAnnealingLROptions {
  std::int64_t t_max = 100;  // Epochs from the first rate down to eta_min.
  double eta_min = 0;
};

class CosineAnnealingLR : public FormulaLR {
 public:
  explicit CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options = {});

 private:
  [[nodiscard]] double next_lr(double lr, double base_lr) const override;
  [[nodiscard]] double closed_form_lr(double base_lr) const override;
  [[nodiscard]] std::map<std::string, SchedulerValue> options() const override;
  void set_options(const SchedulerState& state) override;

  CosineAnnealingLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
};

// From start_factor times the rate to end_factor times it: a warm-up, before another schedule in a
// SequentialLR.
class LinearLR : public FormulaLR {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  [[nodiscard]] double next_lr(double lr, double base_lr) const override;
  [[nodiscard]] double closed_form_lr(double base_lr) const override;
  [[nodiscard]] std::map<std::string, SchedulerValue> options() const override;
  void set_options(const SchedulerState& state) override;

  LinearLROptions options_;
};

// One schedule after another; each begins at its milestone.
class SequentialLR : public LRScheduler {
 public:
  // Throws UsageError unless there is one milestone less than schedules, all of this optimizer.
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<FormulaLR>> schedulers,
               std::vector<std::int64_t> milestones);

  void step() override;
  [[nodiscard]] SchedulerState state_dict() const override;
  void load_state_dict(const SchedulerState& state) override;

 private:
  [[nodiscard]] std::size_t current() const;

  std::vector<std::shared_ptr<FormulaLR>> schedulers_;
  std::vector<std::int64_t> milestones_;
};

enum class LrScale { kLinear, kSqrt };

struct ScaledLrOptions {
  std::int64_t base_size = 256;      // The batch that the base rate is for.
  LrScale scale = LrScale::kLinear;  // timm takes kSqrt for Adam and its relatives.
};

// The rate for a global batch (all ranks together), by timm's rule. Throws UsageError if a size is
// not positive.
double scaled_lr(double base_lr, std::int64_t global_batch_size,
                 const ScaledLrOptions& options = {});

}  // namespace lockstep::optim
