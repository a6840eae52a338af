#include "lockstep/train/optim/adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/pieces.h"

namespace lockstep::optim {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kAverage = "exp_avg";
constexpr const char* kSquares = "exp_avg_sq";
constexpr const char* kMostSquares = "max_exp_avg_sq";

std::pair<double, double> betas_option(const OptionValues& values) {
  const auto found = values.find("betas");
  const auto* betas =
      found == values.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
  if (betas == nullptr || betas->size() != 2) {
    throw UsageError("the optimizer's state has no pair 'betas' in a parameter group");
  }
  return {(*betas)[0], (*betas)[1]};
}

}  // namespace

Adam::Adam(std::vector<at::Tensor> params, const AdamOptions& options)
    : Adam(std::vector<ParamGroup<AdamOptions>>{{std::move(params), options}}) {}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the other constructors take them.
Adam::Adam(std::vector<ParamGroup<AdamOptions>> groups) : Adam("Adam", groups, false) {}

Adam::Adam(const char* name, const std::vector<ParamGroup<AdamOptions>>& groups, bool decoupled)
    : Optimizer(name, params_of(groups)),
      options_(options_of_groups(groups)),
      decoupled_(decoupled) {
  for (const auto& options : options_) {
    require_sensible(options);
  }
}

AdamW::AdamW(std::vector<at::Tensor> params, const AdamOptions& options)
    : Adam("AdamW", {{std::move(params), options}}, true) {}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the other constructors take them.
AdamW::AdamW(std::vector<ParamGroup<AdamOptions>> groups) : Adam("AdamW", groups, true) {}

void Adam::require_sensible(const AdamOptions& options) const {
  const auto require = [this](bool holds, const char* name, double value, const char* expected) {
    if (!holds) {
      fail(std::string(name) + " is " + std::to_string(value) + ", expected " + expected);
    }
  };
  require(options.lr >= 0, "lr", options.lr, "0 or more");
  require(options.eps >= 0, "eps", options.eps, "0 or more");
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  for (const double beta : {options.betas.first, options.betas.second}) {
    require(beta >= 0 && beta < 1, "a beta", beta, "0 or more, and less than 1");
  }
}

void Adam::make_state(std::size_t index, const at::Tensor& param, bool amsgrad, bool fused) {
  auto& tensors = state(index);
  if (tensors.empty()) {
    tensors[kStep] =
        at::zeros({}, at::TensorOptions(at::kFloat).device(fused ? param.device() : at::kCPU));
    tensors[kAverage] = at::zeros_like(param);
    tensors[kSquares] = at::zeros_like(param);
    if (amsgrad) {
      tensors[kMostSquares] = at::zeros_like(param);
    }
  }
}

void Adam::step() {
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
void Adam::step_one_by_one(std::size_t group) {
  const auto& options = options_[group];
  const auto [beta1, beta2] = options.betas;
  const auto found = with_gradient(group);
  for (std::size_t i = 0; i < found.params.size(); ++i) {
    const auto& param = found.params[i];
    make_state(found.indices[i], param, options.amsgrad, /*fused=*/false);
    auto& tensors = state(found.indices[i]);
    at::Tensor grad = options.maximize ? found.grads[i].neg() : found.grads[i];
    const auto count = tensors.at(kStep).add_(1).item<double>();
    if (options.weight_decay != 0) {
      if (decoupled_) {
        param.mul_(1 - options.lr * options.weight_decay);
      } else {
        grad = grad.add(param, options.weight_decay);
      }
    }
    auto& average = tensors.at(kAverage);
    auto& squares = tensors.at(kSquares);
    average.lerp_(grad, 1 - beta1);
    squares.mul_(beta2).addcmul_(grad, grad, 1 - beta2);
    const double step_size = options.lr / (1 - std::pow(beta1, count));
    // pow() and not sqrt(), whose last bit may differ: Python writes ** 0.5.
    const double correction = std::pow(1 - std::pow(beta2, count), 0.5);
    if (options.amsgrad) {
      at::maximum_out(tensors.at(kMostSquares), tensors.at(kMostSquares), squares);
    }
    const auto& divisor = options.amsgrad ? tensors.at(kMostSquares) : squares;
    param.addcdiv_(average, divisor.sqrt().div(correction).add_(options.eps), -step_size);
  }
}

void Adam::step_fused(std::size_t group) {
  const auto& options = options_[group];
  const auto found = with_gradient(group);
  if (found.params.empty()) {
    return;
  }
  std::vector<at::Tensor> averages;
  std::vector<at::Tensor> squares;
  std::vector<at::Tensor> most_squares;
  std::vector<at::Tensor> counts;
  for (std::size_t i = 0; i < found.params.size(); ++i) {
    make_state(found.indices[i], found.params[i], options.amsgrad, /*fused=*/true);
    auto& tensors = state(found.indices[i]);
    averages.push_back(tensors.at(kAverage));
    squares.push_back(tensors.at(kSquares));
    counts.push_back(tensors.at(kStep));
    if (options.amsgrad) {
      most_squares.push_back(tensors.at(kMostSquares));
    }
  }
  at::_foreach_add_(counts, 1);
  const Pieces cut(found.params);
  const auto update = [&](auto kernel) {
    kernel(cut(found.params), cut(found.grads), cut(averages), cut(squares), cut(most_squares),
           cut.repeated(counts), lr_tensor(group), options.betas.first, options.betas.second,
           options.weight_decay, options.eps, options.amsgrad, options.maximize);
  };
  if (decoupled_) {
    update([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
  } else {
    update([](auto&&... arguments) { at::_fused_adam_(arguments...); });
  }
}

OptionValues Adam::options_of(std::size_t group) const {
  const auto& options = options_[group];
  return {{"lr", options.lr},
          {"betas", std::vector<double>{options.betas.first, options.betas.second}},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"amsgrad", options.amsgrad},
          {"maximize", options.maximize},
          {"foreach", std::monostate()},
          {"capturable", false},
          {"differentiable", false},
          {"fused", fused_value(options.fused)},
          {"decoupled_weight_decay", decoupled_}};
}

void Adam::take_options(std::size_t group, const OptionValues& values) {
  AdamOptions options{.lr = number_option(values, "lr"),
                      .betas = betas_option(values),
                      .eps = number_option(values, "eps"),
                      .weight_decay = number_option(values, "weight_decay"),
                      .amsgrad = flag_option(values, "amsgrad"),
                      .maximize = flag_option(values, "maximize"),
                      .fused = fused_option(values)};
  require_sensible(options);
  options_[group] = options;
}

}  // namespace lockstep::optim
