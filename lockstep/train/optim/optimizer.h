// What optimizers have in common: parameters in groups, and a state that torch.optim accepts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::optim {

// Parameters that share options, such as a learning rate of their own.
template <class Options>
struct ParamGroup {
  std::vector<at::Tensor> params;
  Options options;
};

// An option of a group, as a state dict holds it. The first is Python's None.
using OptionValue = std::variant<std::monostate, bool, double, std::vector<double>>;
using OptionValues = std::map<std::string, OptionValue>;

// The contents of `torch.optim.Optimizer.state_dict()`: parameters are numbered group by group.
struct OptimizerState {
  struct Group {
    std::vector<std::int64_t> params;
    OptionValues options;
  };
  std::map<std::int64_t, std::map<std::string, at::Tensor>> state;
  std::vector<Group> param_groups;
};

// Loss scaling that fused kernels do themselves, on the device: GradScaler fills it. Both are
// scalars in float32.
struct LossScale {
  at::Tensor grad_scale;  // Gradients are divided by it; undefined: they are unscaled already.
  at::Tensor found_inf;   // Not 0: the step changes nothing. Undefined: no scaling at all.
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters that have a gradient, and leaves the others alone. Throws UsageError if
  // a gradient is sparse.
  void step();
  // The same with scaled gradients. Throws UsageError unless takes_loss_scale().
  void step(const LossScale& scale);
  // Whether all of the step is fused kernels, so that it needs nothing of the host.
  [[nodiscard]] bool takes_loss_scale() const;

  // For DistributedDataParallel::register_optimizer_in_backward(), which makes steps in parts:
  // between begin and end step() throws UsageError. begin_steps_in_backward() throws it, too, if
  // the optimizer cannot step in parts or already does.
  void begin_steps_in_backward();
  void end_steps_in_backward() { in_backward_ = false; }
  [[nodiscard]] bool steps_in_backward() const { return in_backward_; }
  // Steps these parameters only; those of other optimizers are ignored.
  void step_in_backward(const std::vector<at::Tensor>& params);

  // False: gradients that are there are filled with zeros.
  void zero_grad(bool set_to_none = true);

  [[nodiscard]] std::size_t groups() const { return params_.size(); }
  // These three throw UsageError if there is no such group.
  [[nodiscard]] const std::vector<at::Tensor>& params(std::size_t group) const {
    require_group("params", group);
    return params_[group];
  }
  [[nodiscard]] virtual double lr(std::size_t group = 0) const = 0;
  // The learning rate when this was first called for the group: where schedules begin. It is part
  // of the state, as in Python.
  double initial_lr(std::size_t group);
  // On a GPU the kernels read the rate from its memory, so a recorded step uses the new one. Throws
  // UsageError if there is no such group, or the rate is negative.
  void set_lr(std::size_t group, double lr);
  void set_lr(double lr);  // For all groups.

  // The tensors are the optimizer's own, not copies.
  [[nodiscard]] virtual OptimizerState state_dict() const;
  // Copies, into the tensors that are there where they fit, so that a recorded step goes on with
  // them. State takes the type and device of its parameter, as in Python. Throws UsageError, and
  // changes nothing, if the groups, or the shapes of the state, are not those of the parameters, or
  // if an option or a tensor is missing. Options that mean nothing here, such as a schedule's
  // initial_lr, are kept for the next state_dict().
  virtual void load_state_dict(const OptimizerState& state);

 protected:
  using State = std::map<std::string, at::Tensor>;

  // A parameter that a group has twice (tied weights) is taken once. Throws UsageError if there is
  // no parameter, two groups have one, or one is no leaf.
  Optimizer(const char* name, std::vector<std::vector<at::Tensor>> params);

  // Parameters of a group that have a gradient, and the numbers by which state() knows them.
  struct WithGradient {
    std::vector<at::Tensor> params;
    std::vector<at::Tensor> grads;
    std::vector<std::size_t> indices;
  };
  [[nodiscard]] WithGradient with_gradient(std::size_t group) const;
  // The same, cut by device and type: fused kernels take tensors of one kind.
  [[nodiscard]] std::vector<WithGradient> with_gradient_by_kind(std::size_t group) const;
  [[nodiscard]] State& state(std::size_t index) { return state_[index]; }
  // By number: from now on the other parameters are left alone and have no state here.
  void keep_only(std::vector<bool> own) { own_ = std::move(own); }
  // At the end of each step.
  virtual void finish_step() {}
  // Whether a step may be made for some parameters now and for others later.
  [[nodiscard]] virtual bool steps_in_parts() const { return true; }
  // The tensor on that device, or nothing if it is undefined: as kernels take it.
  static std::optional<at::Tensor> given(const at::Tensor& tensor, at::Device device);

  // The group's learning rate where fused kernels of a GPU read it.
  [[nodiscard]] const at::Tensor& lr_tensor(std::size_t group, at::Device device);

  // The group's option.
  [[nodiscard]] virtual std::optional<bool> fused(std::size_t group) const = 0;
  // The operations of Python's default on the CPU, in its order: the bits depend on it.
  virtual void step_one_by_one(std::size_t group) = 0;
  virtual void step_fused(std::size_t group, const LossScale& scale) = 0;

  [[nodiscard]] virtual OptionValues options_of(std::size_t group) const = 0;
  // Throws UsageError if a value is missing or of another kind.
  virtual void set_options(std::size_t group, const OptionValues& values) = 0;
  virtual void set_lr_option(std::size_t group, double lr) = 0;
  // What the state of a parameter that has one must contain, with these options.
  [[nodiscard]] virtual std::vector<std::string> state_names(const OptionValues& values) const = 0;

  // Before state is made: throws UsageError while a step is recorded, since each replay would make
  // it anew.
  void require_eager_first_step() const;
  [[noreturn]] void fail(const std::string& what) const;
  // Throws UsageError that names the operation if there is no such group.
  void require_group(const char* operation, std::size_t group) const;
  // Throws UsageError with the option's name and value unless it holds.
  void require_option(bool holds, const char* name, double value, const char* expected) const;

 private:
  // Whether the group's step is one fused kernel: asked for, or all of it is on a GPU.
  [[nodiscard]] bool uses_fused(std::size_t group, std::optional<bool> asked) const;
  // Throws UsageError while a step is recorded: it would repeat the numbers of the host for ever.
  void require_not_recorded() const;
  [[nodiscard]] bool is_own(std::size_t index) const { return own_.empty() || own_[index]; }
  void step_groups(const LossScale& scale);
  [[nodiscard]] std::vector<State> states_from(const OptimizerState& loaded) const;

  const char* name_;
  std::vector<std::vector<at::Tensor>> params_;  // By group.
  std::vector<std::size_t> first_;               // The number of each group's first parameter.
  std::vector<State> state_;                     // By number.
  std::vector<bool> own_;                        // By number; empty: all are.
  bool in_backward_ = false;
  // The parameters of this part of a step; nothing: all.
  std::optional<std::unordered_set<const at::TensorImpl*>> chosen_;
  // By group, then by device; none before a fused step.
  std::vector<std::vector<std::pair<at::Device, at::Tensor>>> lr_tensors_;
  std::vector<OptionValues> foreign_options_;  // By group: those that mean nothing here.
};

template <class Options>
std::vector<std::vector<at::Tensor>> params_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<std::vector<at::Tensor>> params;
  for (const auto& group : groups) {
    params.push_back(group.params);
  }
  return params;
}

template <class Options>
std::vector<Options> options_of_groups(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<Options> options;
  for (const auto& group : groups) {
    options.push_back(group.options);
  }
  return options;
}

// From a state dict. Throws UsageError that names it if it is missing or of another kind.
double number_option(const OptionValues& values, const std::string& name);
// False if it is missing, as Python's __setstate__() has it: states of older versions lack some.
bool flag_option(const OptionValues& values, const std::string& name);
// Nothing if it is missing or None.
std::optional<bool> fused_option(const OptionValues& values);
OptionValue fused_value(const std::optional<bool>& fused);

}  // namespace lockstep::optim
