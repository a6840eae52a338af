#include "lockstep/train/optim/sgd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/train/optim/pieces.h"

namespace lockstep::optim {
namespace {

constexpr const char* kMomentum = "momentum_buffer";

}  // namespace

SGD::SGD(std::vector<at::Tensor> params, const SGDOptions& options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{std::move(params), options}}) {}

SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups)
    : Optimizer("SGD", params_of(groups)), options_(options_of_groups(groups)) {
  for (const auto& options : options_) {
    require_sensible(options);
  }
}

void SGD::require_sensible(const SGDOptions& options) const {
  const auto require = [this](bool holds, const char* name, double value) {
    if (!holds) {
      fail(std::string(name) + " is " + std::to_string(value) + ", expected 0 or more");
    }
  };
  require(options.lr >= 0, "lr", options.lr);
  require(options.momentum >= 0, "momentum", options.momentum);
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    fail("nesterov with momentum " + std::to_string(options.momentum) + " and dampening " +
         std::to_string(options.dampening) + ", expected a momentum and no dampening");
  }
}

void SGD::step() {
  const at::NoGradGuard no_grad;
  for (std::size_t group = 0; group < groups(); ++group) {
    if (uses_fused(group, fused_value(options_[group].fused))) {
      step_fused(group);
    } else {
      step_one_by_one(group);
    }
  }
}

// The operations of Python's default on the CPU, in its order: the bits depend on it.
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

void SGD::step_fused(std::size_t group) {
  const auto& options = options_[group];
  const auto found = with_gradient(group);
  // The kernel is told for all of its tensors whether this is their first step.
  for (const bool first : {false, true}) {
    std::vector<at::Tensor> params;
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> buffers;
    for (std::size_t i = 0; i < found.params.size(); ++i) {
      auto& momentum = state(found.indices[i]);
      const bool is_first = options.momentum != 0 && !momentum.contains(kMomentum);
      if (is_first != first) {
        continue;
      }
      params.push_back(found.params[i]);
      grads.push_back(found.grads[i]);
      if (options.momentum != 0) {
        buffers.push_back(is_first ? at::empty_like(found.params[i]) : momentum.at(kMomentum));
      }
    }
    if (params.empty()) {
      continue;
    }
    const Pieces cut(params);
    at::_fused_sgd_(cut(params), cut(grads), cut(buffers), options.weight_decay, options.momentum,
                    lr_tensor(group), options.dampening, options.nesterov, options.maximize, first);
    for (std::size_t i = 0, next = 0; first && i < found.params.size(); ++i) {
      auto& momentum = state(found.indices[i]);
      if (!momentum.contains(kMomentum)) {
        momentum[kMomentum] = buffers[next++];
      }
    }
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

void SGD::take_options(std::size_t group, const OptionValues& values) {
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
