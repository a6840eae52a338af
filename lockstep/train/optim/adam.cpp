#include "lockstep/train/optim/adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/device/pieces.h"

namespace lockstep::optim {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kAverage = "exp_avg";
constexpr const char* kSquares = "exp_avg_sq";
constexpr const char* kMaxSquares = "max_exp_avg_sq";

std::pair<double, double> betas_option(const OptionValues& values) {
  const auto found = values.find("betas");
  const auto* betas =
      found == values.end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
  if (betas == nullptr || betas->size() != 2) {
    throw UsageError("the optimizer's state has no pair 'betas' in a parameter group");
  }
  return {(*betas)[0], (*betas)[1]};
}

std::vector<ParamGroup<AdamOptions>> as_adam(const std::vector<ParamGroup<AdamWOptions>>& groups) {
  std::vector<ParamGroup<AdamOptions>> result;
  for (const auto& [params, options] : groups) {
    result.push_back({params,
                      {.lr = options.lr,
                       .betas = options.betas,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay,
                       .amsgrad = options.amsgrad,
                       .maximize = options.maximize,
                       .fused = options.fused}});
  }
  return result;
}

}  // namespace

Adam::Adam(std::vector<at::Tensor> params, const AdamOptions& options)
    : Adam(std::vector<ParamGroup<AdamOptions>>{{std::move(params), options}}) {}

Adam::Adam(const std::vector<ParamGroup<AdamOptions>>& groups) : Adam("Adam", groups, false) {}

Adam::Adam(const char* name, const std::vector<ParamGroup<AdamOptions>>& groups, bool decoupled)
    : Optimizer(name, params_of(groups)),
      options_(options_of_groups(groups)),
      decoupled_(decoupled) {
  for (std::size_t group = 0; group < this->groups(); ++group) {
    require_sensible(options_[group]);
    for (const auto& param : params(group)) {
      if (param.is_complex()) {
        fail("a parameter of group " + std::to_string(group) + " is complex, expected real ones");
      }
    }
  }
}

AdamW::AdamW(std::vector<at::Tensor> params, const AdamWOptions& options)
    : AdamW(std::vector<ParamGroup<AdamWOptions>>{{std::move(params), options}}) {}

AdamW::AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups)
    : Adam("AdamW", as_adam(groups), true) {}

void Adam::require_sensible(const AdamOptions& options) const {
  require_option(options.lr >= 0, "lr", options.lr, "0 or more");
  require_option(options.eps >= 0, "eps", options.eps, "0 or more");
  require_option(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  for (const double beta : {options.betas.first, options.betas.second}) {
    require_option(beta >= 0 && beta < 1, "a beta", beta, "0 or more, and less than 1");
  }
}

void Adam::make_state(std::size_t index, const at::Tensor& param, bool amsgrad, bool fused) {
  auto& tensors = state(index);
  if (tensors.empty()) {
    require_eager_first_step();
    tensors[kStep] =
        at::zeros({}, at::TensorOptions(at::kFloat).device(fused ? param.device() : at::kCPU));
    tensors[kAverage] = at::zeros_like(param);
    tensors[kSquares] = at::zeros_like(param);
    if (amsgrad) {
      tensors[kMaxSquares] = at::zeros_like(param);
    }
  }
}

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
      at::maximum_out(tensors.at(kMaxSquares), tensors.at(kMaxSquares), squares);
    }
    const auto& divisor = options.amsgrad ? tensors.at(kMaxSquares) : squares;
    param.addcdiv_(average, divisor.sqrt().div(correction).add_(options.eps), -step_size);
  }
}

void Adam::step_fused(std::size_t group, const LossScale& scale) {
  const auto& options = options_[group];
  for (const auto& kind : with_gradient_by_kind(group)) {
    std::vector<at::Tensor> averages;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> max_squares;
    std::vector<at::Tensor> counts;
    for (std::size_t i = 0; i < kind.params.size(); ++i) {
      make_state(kind.indices[i], kind.params[i], options.amsgrad, /*fused=*/true);
      auto& tensors = state(kind.indices[i]);
      averages.push_back(tensors.at(kAverage));
      squares.push_back(tensors.at(kSquares));
      counts.push_back(tensors.at(kStep));
      if (options.amsgrad) {
        max_squares.push_back(tensors.at(kMaxSquares));
      }
    }
    at::_foreach_add_(counts, 1);
    const auto device = kind.params.front().device();
    const auto grad_scale = given(scale.grad_scale, device);
    const auto found_inf = given(scale.found_inf, device);
    const device::Pieces pieces(kind.params);
    const auto update = [&](const auto& lr) {
      const auto call = [&](auto kernel) {
        kernel(pieces.of(kind.params), pieces.of(kind.grads), pieces.of(averages),
               pieces.of(squares), pieces.of(max_squares), pieces.repeated(counts), lr,
               options.betas.first, options.betas.second, options.weight_decay, options.eps,
               options.amsgrad, options.maximize, grad_scale, found_inf);
      };
      if (decoupled_) {
        call([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
      } else {
        call([](auto&&... arguments) { at::_fused_adam_(arguments...); });
      }
    };
    if (device.is_cuda()) {
      update(lr_tensor(group, device));
    } else {
      update(options.lr);
    }
    if (found_inf) {  // A step that did nothing does not count.
      at::_foreach_sub_(counts, std::vector<at::Tensor>(counts.size(), *found_inf));
    }
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

void Adam::set_options(std::size_t group, const OptionValues& values) {
  AdamOptions options{.lr = number_option(values, "lr"),
                      .betas = betas_option(values),
                      .eps = number_option(values, "eps"),
                      .weight_decay = number_option(values, "weight_decay"),
                      .amsgrad = flag_option(values, "amsgrad"),
                      .maximize = flag_option(values, "maximize"),
                      .fused = fused_option(values)};
  require_sensible(options);
  const auto decoupled = values.find("decoupled_weight_decay");
  if (decoupled != values.end() && decoupled->second != OptionValue(decoupled_)) {
    fail(std::string("a state of ") + (decoupled_ ? "Adam" : "AdamW") + ", whose weights decay " +
         (decoupled_ ? "through their gradients" : "by themselves"));
  }
  options_[group] = options;
}

std::vector<std::string> Adam::state_names(const OptionValues& values) const {
  std::vector<std::string> names{kStep, kAverage, kSquares};
  if (flag_option(values, "amsgrad")) {
    names.emplace_back(kMaxSquares);
  }
  return names;
}

}  // namespace lockstep::optim
