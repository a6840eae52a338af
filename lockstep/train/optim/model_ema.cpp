#include "lockstep/train/optim/model_ema.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

torch::OrderedDict<std::string, at::Tensor> state_of(const torch::nn::Module& model) {
  torch::OrderedDict<std::string, at::Tensor> state("tensor");
  for (const auto& item : model.named_parameters()) {
    state.insert(item.key(), item.value().detach());
  }
  for (const auto& item : model.named_buffers()) {
    state.insert(item.key(), item.value().detach());
  }
  return state;
}

// Where there is room for small changes.
at::ScalarType type_of_average(const at::Tensor& weights) {
  return weights.is_floating_point() && weights.element_size() < 4 ? at::kFloat
                                                                   : weights.scalar_type();
}

}  // namespace

ModelEma::ModelEma(const torch::nn::Module& model, const ModelEmaOptions& options)
    : options_(options), averages_("average") {
  if (!(options.decay >= 0 && options.decay <= 1)) {
    throw UsageError("ModelEma: decay is " + std::to_string(options.decay) + ", expected 0 to 1");
  }
  for (const auto& item : state_of(model)) {
    const auto& weights = item.value();
    averages_.insert(item.key(), weights.to(type_of_average(weights), false, /*copy=*/true));
  }
}

torch::OrderedDict<std::string, at::Tensor> ModelEma::matching(
    const torch::nn::Module& model) const {
  auto state = state_of(model);
  for (const auto& item : averages_) {
    const auto* tensor = state.find(item.key());
    if (tensor == nullptr || tensor->sizes() != item.value().sizes()) {
      throw UsageError("ModelEma: the network has no '" + item.key() +
                       "' of the average's shape; expected the one that the average is of");
    }
  }
  return state;
}

void ModelEma::update(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const auto state = matching(model);
  for (auto& item : averages_) {
    const auto weights = state[item.key()].to(item.value().options());
    item.value().copy_(item.value() * options_.decay + weights * (1. - options_.decay));
  }
}

double ModelEma::get_decay(std::int64_t step) const {
  step = std::max<std::int64_t>(0, step - options_.update_after_step - 1);
  if (step <= 0) {
    return 0;
  }
  if (!options_.use_warmup) {
    return options_.decay;
  }
  const double decay =
      1 - std::pow(1 + static_cast<double>(step) / options_.warmup_gamma, -options_.warmup_power);
  return std::max(std::min(decay, options_.decay), options_.min_decay);
}

void ModelEma::update(const torch::nn::Module& model, std::int64_t step) {
  const at::NoGradGuard no_grad;
  const auto state = matching(model);
  const double weight = 1. - get_decay(step);
  for (auto& item : averages_) {
    const auto weights = state[item.key()].to(item.value().options());
    if (weights.is_floating_point()) {
      item.value().lerp_(weights, weight);
    } else {
      item.value().copy_(weights);
    }
  }
}

void ModelEma::set(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const auto state = matching(model);
  for (auto& item : averages_) {
    item.value().copy_(state[item.key()]);
  }
}

void ModelEma::copy_to(torch::nn::Module& model) const {
  const at::NoGradGuard no_grad;
  auto state = matching(model);
  for (const auto& item : averages_) {
    state[item.key()].copy_(item.value());
  }
}

}  // namespace lockstep::optim
