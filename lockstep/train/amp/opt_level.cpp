#include "lockstep/train/amp/opt_level.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/models/script_module.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep::amp {
namespace {

bool casts_model(OptLevel level) { return level == OptLevel::kO2 || level == OptLevel::kO3; }

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr ||
         dynamic_cast<const nn::Synchronizable*>(&module) != nullptr ||
         models::is_script_batch_norm(module);
}

// In place, so that tensors which others hold stay the model's.
void cast(const torch::nn::Module& module, at::ScalarType type) {
  const auto change = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_floating_point()) {
      tensor.set_data(tensor.to(type));
    }
  };
  for (auto& parameter : module.parameters(/*recurse=*/false)) {
    change(parameter);
  }
  for (auto& buffer : module.buffers(/*recurse=*/false)) {
    change(buffer);
  }
}

GradScalerOptions scaler_options(const MixedPrecisionOptions& options) {
  auto scaler = options.scaler;
  const bool scales = options.level == OptLevel::kO1 || options.level == OptLevel::kO2;
  scaler.enabled = scaler.enabled && scales && options.type == at::kHalf;
  return scaler;
}

}  // namespace

OptLevel parse_opt_level(const std::string& text) {
  if (text.size() == 2 && text[0] == 'O' && text[1] >= '0' && text[1] <= '3') {
    return static_cast<OptLevel>(text[1] - '0');
  }
  throw UsageError("the level of mixed precision is '" + text + "', expected O0, O1, O2 or O3");
}

MixedPrecision::MixedPrecision(torch::nn::Module& model, const MixedPrecisionOptions& options)
    : options_(options), model_params_(model.parameters()), scaler_(scaler_options(options)) {
  if (options.type != at::kHalf && options.type != at::kBFloat16) {
    throw UsageError(std::string("MixedPrecision: the type ") + c10::toString(options.type) +
                     ", expected Half or BFloat16");
  }
  for (const auto& item : model.named_parameters()) {
    if (item.value().scalar_type() != at::kFloat) {
      throw UsageError("MixedPrecision: parameter '" + item.key() + "' is of type " +
                       c10::toString(item.value().scalar_type()) +
                       ", expected a model in float32, which is cast here");
    }
  }
  if (options.level == OptLevel::kO2) {
    for (const auto& param : model_params_) {
      masters_.push_back(param.detach().clone().set_requires_grad(param.requires_grad()));
    }
  }
  if (casts_model(options.level)) {
    for (const auto& module : model.modules(/*include_self=*/false)) {
      if (options.level == OptLevel::kO3 || !is_batch_norm(*module)) {
        cast(*module, options.type);
      }
    }
    if (options.level == OptLevel::kO3 || !is_batch_norm(model)) {
      cast(model, options.type);
    }
  }
}

at::Tensor MixedPrecision::input(const at::Tensor& tensor) const {
  return casts_model(options_.level) && tensor.is_floating_point() ? tensor.to(options_.type)
                                                                   : tensor;
}

Autocast MixedPrecision::autocast(at::DeviceType device) const {
  return Autocast(device, {.dtype = options_.type, .enabled = options_.level == OptLevel::kO1});
}

// In float32, so that unscaling them loses nothing.
void MixedPrecision::hand_over_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const auto& grad = model_params_[i].grad();
    masters_[i].mutable_grad() = grad.defined() ? grad.to(at::kFloat, false, /*copy=*/true) : grad;
  }
  handed_over_ = true;
}

void MixedPrecision::require_all_params(const optim::Optimizer& optimizer) const {
  if (masters_.empty() && !scaler_.is_enabled()) {
    return;
  }
  std::unordered_set<const at::TensorImpl*> known;
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    for (const auto& param : optimizer.params(group)) {
      known.insert(param.unsafeGetTensorImpl());
    }
  }
  const auto missing = std::ranges::count_if(params(), [&](const at::Tensor& param) {
    return param.requires_grad() && !known.contains(param.unsafeGetTensorImpl());
  });
  if (missing > 0) {
    throw UsageError("MixedPrecision: the optimizer lacks " + std::to_string(missing) + " of " +
                     std::to_string(params().size()) +
                     " parameters, expected one optimizer with all of params(), which are not the "
                     "model's own at O2; put them into groups of one optimizer, or freeze them "
                     "before this is made");
  }
}

void MixedPrecision::unscale_(optim::Optimizer& optimizer) {
  require_all_params(optimizer);
  hand_over_gradients();
  scaler_.unscale_(optimizer);
}

void MixedPrecision::step(optim::Optimizer& optimizer) {
  require_all_params(optimizer);
  if (!handed_over_) {
    hand_over_gradients();
  }
  handed_over_ = false;
  scaler_.step(optimizer);
  scaler_.update();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    model_params_[i].detach().copy_(masters_[i]);
  }
}

void MixedPrecision::zero_grad(optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  for (auto& param : model_params_) {
    param.mutable_grad().reset();
  }
}

void MixedPrecision::copy_model_to_masters() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    masters_[i].detach().copy_(model_params_[i]);
  }
}

}  // namespace lockstep::amp
