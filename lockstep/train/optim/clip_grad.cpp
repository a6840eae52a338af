#include "lockstep/train/optim/clip_grad.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> grads;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) {
      grads.push_back(parameter.grad());
    }
  }
  return grads;
}

// By device and type, in the order that Python gets from the same function: the norm of the norms
// depends on it.
std::vector<std::vector<at::Tensor>> by_kind(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> kinds;
  if (tensors.empty()) {
    return kinds;
  }
  const std::vector<std::optional<at::Tensor>> list(tensors.begin(), tensors.end());
  for (const auto& [key, group] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype({list}, false)) {
    auto& kind = kinds.emplace_back();
    for (const auto& tensor : group.first.front()) {
      kind.push_back(*tensor);
    }
  }
  return kinds;
}

}  // namespace

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const ClipOptions& options) {
  const at::NoGradGuard no_grad;
  const auto grads = gradients(parameters);
  if (grads.empty()) {
    return at::zeros({});
  }
  const auto kinds = by_kind(grads);
  std::vector<at::Tensor> norms;
  for (const auto& kind : kinds) {
    for (const auto& norm : at::_foreach_norm(kind, options.norm_type)) {
      norms.push_back(norm.to(grads.front().device()));
    }
  }
  auto total = at::linalg_vector_norm(at::stack(norms), options.norm_type);
  if (options.error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw UsageError("clip_grad_norm_: the norm of the gradients is " +
                     std::to_string(total.item<double>()) +
                     ", expected a finite one; lower the learning rate or look at the data");
  }
  // By the reciprocal, as Python divides a number by a tensor. Multiplied even where it is 1: to
  // look would wait for the device.
  const auto factor = ((total + 1e-6).reciprocal() * max_norm).clamp_max(1.0);
  for (const auto& kind : kinds) {
    at::_foreach_mul_(kind, factor.to(kind.front().device()));
  }
  return total;
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  const at::NoGradGuard no_grad;
  for (const auto& kind : by_kind(gradients(parameters))) {
    at::_foreach_clamp_min_(kind, -clip_value);
    at::_foreach_clamp_max_(kind, clip_value);
  }
}

}  // namespace lockstep::optim
