#include "lockstep/train/optim/sgd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/device/pieces.h"

namespace lockstep::optim {
namespace {

constexpr const char* kMomentum = "momentum_buffer";

}  // namespace

SGD::SGD(std::vector<at::Tensor> params, const SGDOptions& options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{std::move(params), options}}) {}

SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups)
    : Optimizer("SGD", params_of(groups)), options_(options_of_groups(groups)) {
  for (const auto& options : options_) {
    require_sensible(options);
  }
}

void SGD::require_sensible(const SGDOptions& options) const {
  require_option(options.lr >= 0, "lr", options.lr, "0 or more");
  require_option(options.momentum >= 0, "momentum", options.momentum, "0 or more");
  require_option(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    fail("nesterov with momentum " + std::to_string(options.momentum) + " and dampening " +
         std::to_string(options.dampening) + ", expected a momentum and no dampening");
  }
}

void SGD::step_one_by_one(std::size_t group) {
  const auto& options = options_[group];
  const auto found = with_gradient(group);
  for (std::size_t i = 0; i < found.params.size(); ++i) {
    at::Tensor grad = options.maximize ? found.grads[i].neg() : found.grads[i];
    if (options.weight_decay != 0) {
      grad = grad.add(found.params[i], options.weight_decay);
    }
    if (options.momentum != 0) {
      auto& buffer = state(found.indices[i])[kMomentum];
      if (!buffer.defined()) {
        buffer = grad.detach().clone();
      } else {
        buffer.mul_(options.momentum).add_(grad, 1 - options.dampening);
      }
      grad = options.nesterov ? grad.add(buffer, options.momentum) : buffer;
    }
    found.params[i].add_(grad, -options.lr);
  }
}

void SGD::step_fused(std::size_t group, const LossScale& scale) {
  for (const auto& kind : with_gradient_by_kind(group)) {
    // The kernel is told for all of its tensors whether this is their first step.
    WithGradient first;
    WithGradient later;
    for (std::size_t i = 0; i < kind.params.size(); ++i) {
      auto& momentum = state(kind.indices[i]);
      const bool is_first = options_[group].momentum != 0 && !momentum.contains(kMomentum);
      if (is_first) {
        require_eager_first_step();
        // Zeros, not what is in memory: an overflow may leave it as it is, and there is no second
        // first step.
        momentum[kMomentum] = at::zeros_like(kind.params[i]);
      }
      auto& part = is_first ? first : later;
      part.params.push_back(kind.params[i]);
      part.grads.push_back(kind.grads[i]);
      part.indices.push_back(kind.indices[i]);
    }
    update_fused(group, first, {.scale = scale, .is_first = true});
    update_fused(group, later, {.scale = scale, .is_first = false});
  }
}

void SGD::update_fused(std::size_t group, const WithGradient& part, const FusedStep& step) {
  if (part.params.empty()) {
    return;
  }
  const auto& options = options_[group];
  std::vector<at::Tensor> buffers;
  for (const auto index : part.indices) {
    if (options.momentum != 0) {
      buffers.push_back(state(index).at(kMomentum));
    }
  }
  const auto device = part.params.front().device();
  const device::Pieces pieces(part.params);
  const auto update = [&](const auto& lr) {
    at::_fused_sgd_(pieces.of(part.params), pieces.of(part.grads), pieces.of(buffers),
                    options.weight_decay, options.momentum, lr, options.dampening, options.nesterov,
                    options.maximize, step.is_first, given(step.scale.grad_scale, device),
                    given(step.scale.found_inf, device));
  };
  if (device.is_cuda()) {
    update(lr_tensor(group, device));
  } else {
    update(options.lr);
  }
}

OptionValues SGD::options_of(std::size_t group) const {
  const auto& options = options_[group];
  return {{"lr", options.lr},
          {"momentum", options.momentum},
          {"dampening", options.dampening},
          {"weight_decay", options.weight_decay},
          {"nesterov", options.nesterov},
          {"maximize", options.maximize},
          {"foreach", std::monostate()},
          {"differentiable", false},
          {"fused", fused_value(options.fused)}};
}

void SGD::set_options(std::size_t group, const OptionValues& values) {
  SGDOptions options{.lr = number_option(values, "lr"),
                     .momentum = number_option(values, "momentum"),
                     .dampening = number_option(values, "dampening"),
                     .weight_decay = number_option(values, "weight_decay"),
                     .nesterov = flag_option(values, "nesterov"),
                     .maximize = flag_option(values, "maximize"),
                     .fused = fused_option(values)};
  require_sensible(options);
  options_[group] = options;
}

}  // namespace lockstep::optim
