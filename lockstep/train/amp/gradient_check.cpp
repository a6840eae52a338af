#include "lockstep/train/amp/gradient_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::amp {
namespace {

// One pass over the gradient; isfinite().all() takes 18 times as long (2-core ARM, 2026-11-17).
// Undefined if there is no gradient.
GradientRange range_of(const at::Tensor& grad) {
  if (!grad.defined()) {
    return {};
  }
  const at::NoGradGuard no_grad;
  const auto values = grad.is_sparse() ? grad._values() : grad;
  if (values.numel() == 0) {
    return {};
  }
  const auto [low, high] = at::aminmax(values.is_complex() ? at::view_as_real(values) : values);
  return {low, high};
}

GradientRange joined(const GradientRange& a, const GradientRange& b) {
  if (!a.low.defined()) {
    return b;
  }
  return {at::minimum(a.low, b.low), at::maximum(a.high, b.high)};  // NaN stays NaN.
}

// Says for each range whether an end of it is infinite or NaN. Waits once if all are on one device.
std::vector<bool> are_bad(const std::vector<GradientRange>& ranges) {
  std::vector<at::Tensor> ends;
  bool same_type = true;
  for (const auto& range : ranges) {
    for (const auto& end : {range.low, range.high}) {
      if (end.defined()) {
        ends.push_back(end);
        same_type = same_type && end.scalar_type() == ends.front().scalar_type();
      }
    }
  }
  std::vector<bool> values(ranges.size(), false);
  if (ends.empty()) {
    return values;
  }
  const auto type = same_type ? ends.front().scalar_type() : at::kDouble;
  for (auto& end : ends) {
    // It waits between devices: a copy that does not could be read before it is there.
    end = end.to(ends.front().device(), type);
  }
  const auto stacked = at::stack(ends).to(at::kCPU, at::kDouble);
  const double* next = stacked.const_data_ptr<double>();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].low.defined()) {
      values[i] = !std::isfinite(next[0]) || !std::isfinite(next[1]);
      next += 2;
    }
  }
  return values;
}

}  // namespace

GradientCheck::GradientCheck(const torch::nn::Module& model, const GradientCheckOptions& options)
    : options_(options) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) {
      watched_.push_back({.name = item.key(), .param = item.value()});
    }
  }
  if (watched_.empty()) {
    throw UsageError("GradientCheck: no parameter takes a gradient, expected at least one");
  }
  for (auto& watched : watched_) {  // Its place does not change any more.
    watched.hook = watched.param.register_hook([&watched](const at::Tensor& grad) {
      if (grad.defined() && grad.is_cuda() && device::Graph::is_stream_recorded()) {
        throw UsageError(
            "GradientCheck: the step is recorded, and replays run no hooks; record it without a "
            "GradientCheck, or run it eagerly (GraphedStepOptions::record = false)");
      }
      if (const auto range = range_of(grad); range.low.defined()) {
        watched.range = joined(watched.range, range);
      }
    });
  }
}

GradientCheck::~GradientCheck() {
  for (const auto& watched : watched_) {
    watched.param.remove_hook(watched.hook);
  }
}

bool GradientCheck::check(std::int64_t step, const GradScaler* scaler) {
  // Looks at this rank's own gradients, then at the averages: a rank that skips must do what the
  // other ranks do.
  std::vector<GradientRange> ranges;
  for (auto& watched : watched_) {
    ranges.push_back(std::exchange(watched.range, {}));
  }
  if (options_.policy == NonFinitePolicy::kSkip) {
    for (const auto& watched : watched_) {
      ranges.push_back(range_of(watched.param.grad()));
    }
  }
  const auto bad = are_bad(ranges);
  first_.reset();
  const auto first = std::find(bad.begin(), bad.end(), true);
  if (first != bad.end()) {
    first_ = watched_[static_cast<std::size_t>(first - bad.begin()) % watched_.size()].name;
  }
  // The last round decides: the averages, if they were asked for.
  const auto last_round = bad.end() - static_cast<std::ptrdiff_t>(watched_.size());
  if (std::find(last_round, bad.end(), true) == bad.end() ||
      (scaler != nullptr && scaler->is_enabled() && scaler->get_scale() > 1)) {
    return true;
  }
  if (options_.policy == NonFinitePolicy::kAbort) {
    const std::string reason =
        "rank " + std::to_string(options_.rank) + ", step " + std::to_string(step) +
        ": the gradient of '" + *first_ +
        "' is infinite or NaN, expected finite ones; look at this rank's data of the step, or "
        "lower the learning rate";
    if (on_abort_) {
      on_abort_(reason);
    }
    throw UsageError(reason);
  }
  return false;
}

std::optional<std::string> GradientCheck::first_of(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    const auto& grad = item.value().grad();
    if (are_bad({range_of(grad)}).front()) {
      return item.key();
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::amp
