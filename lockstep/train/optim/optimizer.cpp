#include "lockstep/train/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

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

Optimizer::Optimizer(const char* name, std::vector<std::vector<at::Tensor>> params)
    : name_(name),
      params_(std::move(params)),
      lr_tensors_(params_.size()),
      foreign_options_(params_.size()) {
  std::set<const at::TensorImpl*> others;
  for (std::size_t group = 0; group < params_.size(); ++group) {
    first_.push_back(others.size());
    std::set<const at::TensorImpl*> own;
    std::vector<at::Tensor> once;
    for (std::size_t i = 0; i < params_[group].size(); ++i) {
      const auto& param = params_[group][i];
      const auto place = std::to_string(i) + " of group " + std::to_string(group);
      if (!param.defined()) {
        fail("parameter " + place + " is undefined");
      }
      if (!param.is_leaf()) {
        fail("parameter " + place + " is computed from others, expected a leaf");
      }
      if (others.contains(param.unsafeGetTensorImpl())) {
        fail("parameter " + place + " is in another group, too");
      }
      if (own.insert(param.unsafeGetTensorImpl()).second) {
        once.push_back(param);
      }
    }
    params_[group] = std::move(once);
    others.merge(own);
  }
  if (others.empty()) {
    fail("no parameters, expected at least one");
  }
  state_.resize(others.size());
}

void Optimizer::fail(const std::string& what) const {
  throw UsageError(std::string("optim::") + name_ + ": " + what);
}

void Optimizer::zero_grad(bool set_to_none) {
  for (auto& group : params_) {
    for (auto& param : group) {
      auto& grad = param.mutable_grad();
      if (!grad.defined()) {
        continue;
      }
      if (set_to_none) {
        grad.reset();
      } else {
        grad.detach_().zero_();
      }
    }
  }
}

void Optimizer::set_lr(std::size_t group, double lr) {
  if (!(lr >= 0)) {
    fail("a learning rate of " + std::to_string(lr) + ", expected 0 or more");
  }
  set_lr_option(group, lr);
  for (auto& [device, tensor] : lr_tensors_[group]) {
    tensor.fill_(lr);
  }
}

void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups(); ++group) {
    set_lr(group, lr);
  }
}

Optimizer::WithGradient Optimizer::with_gradient(std::size_t group) const {
  WithGradient found;
  for (std::size_t i = 0; i < params_[group].size(); ++i) {
    const auto& param = params_[group][i];
    const auto& grad = param.grad();
    if (!grad.defined()) {
      continue;
    }
    if (grad.is_sparse()) {
      fail("the gradient of parameter " + std::to_string(i) + " of group " + std::to_string(group) +
           " is sparse, expected a dense one");
    }
    found.params.push_back(param);
    found.grads.push_back(grad);
    found.indices.push_back(first_[group] + i);
  }
  return found;
}

bool Optimizer::uses_fused(std::size_t group, const OptionValue& asked) const {
  if (const auto* fused = std::get_if<bool>(&asked)) {
    return *fused;
  }
  return std::ranges::all_of(params_[group], [](const at::Tensor& param) {
    return param.is_cuda() && param.is_floating_point();
  });
}

std::vector<Optimizer::WithGradient> Optimizer::with_gradient_by_kind(std::size_t group) const {
  const auto all = with_gradient(group);
  std::vector<WithGradient> kinds;
  for (std::size_t i = 0; i < all.params.size(); ++i) {
    const auto& param = all.params[i];
    auto kind = std::ranges::find_if(kinds, [&](const WithGradient& known) {
      const auto& other = known.params.front();
      return other.device() == param.device() && other.scalar_type() == param.scalar_type();
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), WithGradient());
    }
    kind->params.push_back(param);
    kind->grads.push_back(all.grads[i]);
    kind->indices.push_back(all.indices[i]);
  }
  return kinds;
}

const at::Tensor& Optimizer::lr_tensor(std::size_t group, at::Device device) {
  auto& tensors = lr_tensors_[group];
  const auto known = std::ranges::find(tensors, device, &std::pair<at::Device, at::Tensor>::first);
  if (known != tensors.end()) {
    return known->second;
  }
  return tensors
      .emplace_back(device, at::full({}, lr(group), at::TensorOptions(at::kFloat).device(device)))
      .second;
}

void Optimizer::require_not_recorded() const {
  if (device::Graph::recording() != nullptr) {
    fail(
        "a step without fused kernels cannot be recorded, since its numbers are the host's; set "
        "fused = true, with all parameters of the group on the GPU");
  }
}

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
    const auto asked = saved.options.find("fused");
    const bool fused =
        uses_fused(group, asked == saved.options.end() ? OptionValue() : asked->second);
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
  const auto* flag = found == values.end() ? nullptr : std::get_if<bool>(&found->second);
  if (flag == nullptr) {
    throw UsageError("the optimizer's state has no flag '" + name + "' in a parameter group");
  }
  return *flag;
}

}  // namespace lockstep::optim
