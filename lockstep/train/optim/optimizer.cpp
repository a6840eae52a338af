#include "lockstep/train/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::optim {

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

void Optimizer::require_group(const char* operation, std::size_t group) const {
  if (group >= groups()) {
    const bool one = groups() == 1;
    fail(std::string(operation) + " of group " + std::to_string(group) + ": there " +
         (one ? "is 1 group, expected 0"
              : "are " + std::to_string(groups()) + " groups, expected 0 to " +
                    std::to_string(groups() - 1)));
  }
}

void Optimizer::step() { step({}); }

void Optimizer::step(const LossScale& scale) {
  if (in_backward_) {
    fail(
        "step() of an optimizer whose steps backward makes (register_optimizer_in_backward); leave "
        "the call out");
  }
  if (scale.found_inf.defined() && !takes_loss_scale()) {
    fail("a loss scale for a step without fused kernels, expected gradients that are unscaled");
  }
  step_groups(scale);
  finish_step();
}

void Optimizer::begin_steps_in_backward() {
  if (in_backward_) {
    fail("another backward makes its steps already; make an optimizer for each");
  }
  if (!steps_in_parts()) {
    fail(
        "its step is one collective of all ranks, so backward cannot make it in parts; call step() "
        "after backward()");
  }
  in_backward_ = true;
}

void Optimizer::step_in_backward(const std::vector<at::Tensor>& params) {
  auto& chosen = chosen_.emplace();
  for (const auto& param : params) {
    chosen.insert(param.unsafeGetTensorImpl());
  }
  step_groups({});
  chosen_.reset();
}

void Optimizer::step_groups(const LossScale& scale) {
  const at::NoGradGuard no_grad;
  for (std::size_t group = 0; group < groups(); ++group) {
    if (uses_fused(group, fused(group))) {
      step_fused(group, scale);
    } else {
      require_not_recorded();
      step_one_by_one(group);
    }
  }
}

bool Optimizer::takes_loss_scale() const {
  for (std::size_t group = 0; group < groups(); ++group) {
    if (!uses_fused(group, fused(group))) {
      return false;
    }
  }
  return true;
}

void Optimizer::require_option(bool holds, const char* name, double value,
                               const char* expected) const {
  if (!holds) {
    fail(std::string(name) + " is " + std::to_string(value) + ", expected " + expected);
  }
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
  require_group("set_lr", group);
  set_lr_option(group, lr);
  for (auto& [device, tensor] : lr_tensors_[group]) {
    tensor.fill_(lr);
  }
}

double Optimizer::initial_lr(std::size_t group) {
  require_group("initial_lr", group);
  auto& value = foreign_options_[group].try_emplace("initial_lr", lr(group)).first->second;
  const auto* number = std::get_if<double>(&value);
  return number != nullptr ? *number : lr(group);
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
    if (!grad.defined() || (chosen_ && !chosen_->contains(param.unsafeGetTensorImpl()))) {
      continue;
    }
    if (grad.is_sparse()) {
      fail("the gradient of parameter " + std::to_string(i) + " of group " + std::to_string(group) +
           " is sparse, expected a dense one");
    }
    if (!is_own(first_[group] + i)) {
      continue;  // After the check, so that all ranks find the same.
    }
    found.params.push_back(param);
    found.grads.push_back(grad);
    found.indices.push_back(first_[group] + i);
  }
  return found;
}

bool Optimizer::uses_fused(std::size_t group, std::optional<bool> asked) const {
  if (asked) {
    return *asked;
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

std::optional<at::Tensor> Optimizer::given(const at::Tensor& tensor, at::Device device) {
  if (!tensor.defined()) {
    return std::nullopt;
  }
  // The host waits for what it reads itself.
  return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/!device.is_cpu());
}

const at::Tensor& Optimizer::lr_tensor(std::size_t group, at::Device device) {
  auto& tensors = lr_tensors_[group];
  const auto known = std::ranges::find(tensors, device, &std::pair<at::Device, at::Tensor>::first);
  if (known != tensors.end()) {
    return known->second;
  }
  require_eager_first_step();
  return tensors
      .emplace_back(device, at::full({}, lr(group), at::TensorOptions(at::kFloat).device(device)))
      .second;
}

void Optimizer::require_eager_first_step() const {
  if (device::Graph::recording() != nullptr) {
    fail(
        "the first step of a parameter cannot be recorded, since replays would make its state "
        "anew; run one eagerly before (GraphedStepOptions::warmup)");
  }
}

void Optimizer::require_not_recorded() const {
  if (device::Graph::recording() != nullptr) {
    fail(
        "a step without fused kernels cannot be recorded, since its numbers are the host's; set "
        "fused = true, with all parameters of the group on the GPU");
  }
}

}  // namespace lockstep::optim
