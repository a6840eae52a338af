// The state of an optimizer, as torch.optim has it, in and out.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep::optim {
namespace {

std::string text_of(at::IntArrayRef sizes) {
  std::string text = "[";
  for (const auto size : sizes) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

// As torch.optim.Optimizer._process_value_according_to_param_policy: the count of steps stays where
// and what it is, unless fused kernels read it on the GPU.
at::Tensor as_state_of(const at::Tensor& param, const std::string& name, const at::Tensor& value,
                       bool fused) {
  if (name == "step") {
    auto options = value.options().dtype(at::kFloat);
    return value.to(fused ? options.device(param.device()) : options, /*non_blocking=*/false,
                    /*copy=*/true);
  }
  // With the parameter's strides, which is what fused kernels are fast with.
  return at::empty_like(param).copy_(value);
}

}  // namespace

OptimizerState Optimizer::state_dict() const {
  OptimizerState result;
  for (std::size_t group = 0; group < groups(); ++group) {
    auto& saved = result.param_groups.emplace_back();
    saved.options = options_of(group);
    saved.options.insert(foreign_options_[group].begin(), foreign_options_[group].end());
    for (std::size_t i = 0; i < params_[group].size(); ++i) {
      const auto number = static_cast<std::int64_t>(first_[group] + i);
      saved.params.push_back(number);
      if (const auto& state = state_[first_[group] + i]; !state.empty()) {
        result.state[number] = state;
      }
    }
  }
  return result;
}

std::vector<Optimizer::State> Optimizer::states_from(const OptimizerState& loaded) const {
  if (loaded.param_groups.size() != groups()) {
    fail("a state of " + std::to_string(loaded.param_groups.size()) +
         " parameter groups, expected " + std::to_string(groups()));
  }
  std::vector<State> states(state_.size());
  for (std::size_t group = 0; group < groups(); ++group) {
    const auto& saved = loaded.param_groups[group];
    if (saved.params.size() != params_[group].size()) {
      fail("a state of " + std::to_string(saved.params.size()) + " parameters in group " +
           std::to_string(group) + ", expected " + std::to_string(params_[group].size()));
    }
    const bool fused = uses_fused(group, fused_option(saved.options));
    for (std::size_t i = 0; i < saved.params.size(); ++i) {
      const auto found = loaded.state.find(saved.params[i]);
      if (found == loaded.state.end()) {
        continue;
      }
      const auto& param = params_[group][i];
      const auto place =
          " of parameter " + std::to_string(i) + " of group " + std::to_string(group);
      auto& state = states[first_[group] + i];
      for (const auto& [name, value] : found->second) {
        if (!value.defined()) {
          continue;  // Python's None.
        }
        const auto expected = name == "step" ? at::IntArrayRef() : param.sizes();
        if (value.sizes() != expected) {
          fail("'" + name + "'" + place + " has the shape " + text_of(value.sizes()) +
               ", expected " + text_of(expected));
        }
        state[name] = as_state_of(param, name, value, fused);
      }
      for (const auto& name : state_names(saved.options)) {
        if (!state.empty() && !state.contains(name)) {
          fail("the state" + place + " has no '" + name + "'");
        }
      }
      if (!is_own(first_[group] + i)) {
        state.clear();  // After the checks, so that all ranks find the same.
      }
    }
  }
  return states;
}

void Optimizer::load_state_dict(const OptimizerState& loaded) {
  const at::NoGradGuard no_grad;
  auto states = states_from(loaded);
  std::vector<OptionValues> before;
  for (std::size_t group = 0; group < groups(); ++group) {
    before.push_back(options_of(group));
  }
  try {
    for (std::size_t group = 0; group < groups(); ++group) {
      set_options(group, loaded.param_groups[group].options);
    }
  } catch (const UsageError&) {
    for (std::size_t group = 0; group < groups(); ++group) {
      set_options(group, before[group]);
    }
    throw;
  }
  for (std::size_t group = 0; group < groups(); ++group) {
    foreign_options_[group].clear();
    for (const auto& [name, value] : loaded.param_groups[group].options) {
      if (!before[group].contains(name)) {
        foreign_options_[group][name] = value;
      }
    }
    for (auto& [device, tensor] : lr_tensors_[group]) {
      tensor.fill_(lr(group));
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (auto& [name, value] : states[i]) {
      const auto old = state_[i].find(name);
      if (old != state_[i].end() && old->second.options().type_equal(value.options()) &&
          old->second.device() == value.device() && old->second.strides() == value.strides()) {
        value = old->second.copy_(value);
      }
    }
  }
  state_ = std::move(states);
}

double number_option(const OptionValues& values, const std::string& name) {
  const auto found = values.find(name);
  const auto* number = found == values.end() ? nullptr : std::get_if<double>(&found->second);
  if (number == nullptr) {
    throw UsageError("the optimizer's state has no number '" + name + "' in a parameter group");
  }
  return *number;
}

bool flag_option(const OptionValues& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) {
    return false;
  }
  const auto* flag = std::get_if<bool>(&found->second);
  if (flag == nullptr) {
    throw UsageError("the optimizer's state has no flag '" + name + "' in a parameter group");
  }
  return *flag;
}

OptionValue fused_value(const std::optional<bool>& fused) {
  return fused ? OptionValue(*fused) : OptionValue();
}

std::optional<bool> fused_option(const OptionValues& values) {
  const auto found = values.find("fused");
  const auto* fused = found == values.end() ? nullptr : std::get_if<bool>(&found->second);
  return fused == nullptr ? std::nullopt : std::optional(*fused);
}

}  // namespace lockstep::optim
