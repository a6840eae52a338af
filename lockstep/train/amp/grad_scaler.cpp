#include "lockstep/train/amp/grad_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::amp {
namespace {

[[noreturn]] void fail(const std::string& what) { throw UsageError("GradScaler: " + what); }

void require_gradients(bool none) {
  if (none) {
    fail("step() of an optimizer without gradients; call backward() first");
  }
}

void require_steps_after_backward(const optim::Optimizer& optimizer) {
  if (optimizer.steps_in_backward()) {
    fail(
        "backward makes the optimizer's steps (register_optimizer_in_backward), with gradients "
        "that are still scaled; leave one of both out");
  }
}

at::Tensor full_like_scale(double value, const at::Tensor& scale) {
  return at::full({}, value, at::TensorOptions(at::kFloat).device(scale.device()));
}

// The host waits for what it reads itself: a copy that does not could be read before it is there.
at::Tensor on(at::Device device, const at::Tensor& number) {
  return number.to(device, at::kFloat, /*non_blocking=*/!device.is_cpu());
}

// What is to be unscaled of a gradient. Of a sparse one its values: in float16 those of an index
// that is there twice are added before, since that is where they overflow.
at::Tensor values_of(const at::Tensor& param) {
  const auto& grad = param.grad();
  if (!grad.is_sparse()) {
    return grad;
  }
  if (grad.scalar_type() == at::kHalf) {
    param.mutable_grad() = grad.coalesce();
  }
  return param.grad()._values();
}

// Gradients of one device and type.
struct Kind {
  at::Device device;
  at::ScalarType type;
  std::vector<at::Tensor> grads;
};

std::vector<Kind> by_kind(const optim::Optimizer& optimizer, bool allow_half) {
  std::vector<Kind> kinds;
  for (std::size_t group = 0; group < optimizer.groups(); ++group) {
    for (const auto& param : optimizer.params(group)) {
      const auto& grad = param.grad();
      if (!grad.defined()) {
        continue;
      }
      if (!allow_half && grad.scalar_type() == at::kHalf) {
        fail(
            "a gradient in float16 is to be unscaled, which loses what scaling saves; give the "
            "optimizer parameters in float32 (Autocast casts them, and master weights are such)");
      }
      const auto values = values_of(param);
      const auto same = [&](const Kind& kind) {
        return kind.device == values.device() && kind.type == values.scalar_type();
      };
      auto kind = std::ranges::find_if(kinds, same);
      if (kind == kinds.end()) {
        kind = kinds.insert(kinds.end(), Kind{values.device(), values.scalar_type(), {}});
      }
      kind->grads.push_back(values);
    }
  }
  return kinds;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (options.enabled && !(options.growth_factor > 1)) {
    fail("growth_factor is " + std::to_string(options.growth_factor) + ", expected more than 1");
  }
  if (options.enabled && !(options.backoff_factor < 1)) {
    fail("backoff_factor is " + std::to_string(options.backoff_factor) + ", expected less than 1");
  }
}

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  if (!options_.enabled) {
    return outputs;
  }
  if (!scale_.defined()) {
    if (device::Graph::recording() != nullptr) {
      fail(
          "the first scale() cannot be recorded, since replays would set the scale back; run a "
          "step eagerly before (GraphedStepOptions::warmup)");
    }
    const auto options = at::TensorOptions().device(outputs.device());
    scale_ = at::full({}, options_.init_scale, options.dtype(at::kFloat));
    growth_tracker_ = at::full({}, initial_growth_tracker_, options.dtype(at::kInt));
  }
  return outputs * on(outputs.device(), scale_);
}

std::vector<at::Tensor> GradScaler::scale(const std::vector<at::Tensor>& outputs) {
  std::vector<at::Tensor> scaled;
  for (const auto& output : outputs) {
    scaled.push_back(scale(output));
  }
  return scaled;
}

void GradScaler::require_scale(const char* operation) const {
  if (!scale_.defined()) {
    fail(std::string(operation) + " before the first scale(); scale the loss before backward()");
  }
}

// For each device on which there are gradients: 1 if one is infinite or NaN, else 0.
GradScaler::PerDevice GradScaler::unscale_gradients(const optim::Optimizer& optimizer,
                                                    const at::Tensor& inv_scale,
                                                    bool allow_half) const {
  const at::NoGradGuard no_grad;
  PerDevice found_inf;
  for (const auto& kind : by_kind(optimizer, allow_half)) {
    auto found = std::ranges::find(found_inf, kind.device, &PerDevice::value_type::first);
    if (found == found_inf.end()) {
      found = found_inf.emplace(found_inf.end(), kind.device,
                                on(kind.device, full_like_scale(0, scale_)));
    }
    at::_amp_foreach_non_finite_check_and_unscale_(kind.grads, found->second,
                                                   on(kind.device, inv_scale));
  }
  return found_inf;
}

GradScaler::PerOptimizer& GradScaler::per_optimizer(const optim::Optimizer& optimizer) {
  auto& state = optimizers_[&optimizer];
  if (state.graph != device::Graph::recording_number()) {
    state = {.graph = device::Graph::recording_number()};
  }
  return state;
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    return;
  }
  require_steps_after_backward(optimizer);
  require_scale("unscale_()");
  auto& state = per_optimizer(optimizer);
  if (state.stage == Stage::kUnscaled) {
    fail("unscale_() has already been called on this optimizer since the last update()");
  }
  if (state.stage == Stage::kStepped) {
    fail("unscale_() is called after step()");
  }
  // In double: division in float32 is imprecise with some options of compilers.
  const auto inv_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  state.found_inf = unscale_gradients(optimizer, inv_scale, /*allow_half=*/false);
  state.stage = Stage::kUnscaled;
}

void GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return;
  }
  require_steps_after_backward(optimizer);
  require_scale("step()");
  auto& state = per_optimizer(optimizer);
  if (state.stage == Stage::kStepped) {
    fail("step() has already been called since the last update()");
  }
  if (optimizer.takes_loss_scale()) {
    step_fused(optimizer, state);
    state.stage = Stage::kStepped;
    return;
  }
  if (device::Graph::recording() != nullptr) {
    fail(
        "step() of an optimizer without fused kernels cannot be recorded, since it waits for the "
        "GPU; set fused = true, with all parameters on the GPU");
  }
  if (state.stage == Stage::kReady) {
    unscale_(optimizer);
  }
  require_gradients(state.found_inf.empty());
  const bool overflow = std::ranges::any_of(
      state.found_inf, [](const auto& found) { return found.second.template item<float>() != 0; });
  if (!overflow) {
    optimizer.step();
  }
  state.stage = Stage::kStepped;
}

void GradScaler::step_fused(optim::Optimizer& optimizer, PerOptimizer& state) {
  optim::LossScale scale;
  if (state.stage == Stage::kReady) {  // The kernels divide, so this looks only.
    state.found_inf = unscale_gradients(optimizer, full_like_scale(1, scale_), /*allow_half=*/true);
    scale.grad_scale = scale_;
  }
  require_gradients(state.found_inf.empty());
  scale.found_inf = full_like_scale(0, scale_);
  for (const auto& [device, found] : state.found_inf) {
    scale.found_inf.add_(on(scale_.device(), found));
  }
  optimizer.step(scale);
}

void GradScaler::update() {
  if (!options_.enabled) {
    return;
  }
  require_scale("update()");
  at::Tensor combined;
  for (const auto& [optimizer, state] : optimizers_) {
    if (state.graph != device::Graph::recording_number()) {
      continue;  // It belongs to a recording that failed.
    }
    for (const auto& [device, found] : state.found_inf) {
      const auto here = on(scale_.device(), found);
      combined = combined.defined() ? combined + here : here;
    }
  }
  if (!combined.defined()) {
    fail("update() before any step() or unscale_() of an optimizer that has gradients");
  }
  at::_amp_update_scale_(scale_, growth_tracker_, combined, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  optimizers_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) {
    return;
  }
  require_scale("update()");
  scale_.fill_(new_scale);
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) {
    return 1;
  }
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}

std::int64_t GradScaler::growth_tracker() const {
  return growth_tracker_.defined() ? growth_tracker_.item<std::int64_t>() : initial_growth_tracker_;
}

std::optional<GradScalerState> GradScaler::state_dict() const {
  if (!options_.enabled) {
    return std::nullopt;
  }
  return GradScalerState{.scale = get_scale(),
                         .growth_factor = options_.growth_factor,
                         .backoff_factor = options_.backoff_factor,
                         .growth_interval = options_.growth_interval,
                         .growth_tracker = growth_tracker()};
}

void GradScaler::load_state_dict(const std::optional<GradScalerState>& state) {
  if (!options_.enabled) {
    return;
  }
  if (!state) {
    fail("the state is empty, as that of a disabled one is");
  }
  options_.init_scale = state->scale;
  options_.growth_factor = state->growth_factor;
  options_.backoff_factor = state->backoff_factor;
  options_.growth_interval = state->growth_interval;
  initial_growth_tracker_ = state->growth_tracker;
  if (scale_.defined()) {
    scale_.fill_(state->scale);
    growth_tracker_.fill_(state->growth_tracker);
  }
}

}  // namespace lockstep::amp
