#include "lockstep/train/amp/gradient_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"

namespace lockstep::amp {
namespace {

// A flag on the gradient's device; undefined if there is no gradient.
at::Tensor is_bad(const at::Tensor& grad) {
  if (!grad.defined()) {
    return {};
  }
  const at::NoGradGuard no_grad;
  const auto values = grad.is_sparse() ? grad._values() : grad;
  return values.isfinite().all().logical_not();
}

// What the flags say; an undefined one is false. One wait for all that are on one device.
std::vector<bool> read(const std::vector<at::Tensor>& flags) {
  std::vector<at::Tensor> defined;
  for (const auto& flag : flags) {
    if (flag.defined()) {
      // It waits between devices: a copy that does not could be read before it is there.
      defined.push_back(defined.empty() ? flag : flag.to(defined.front().device()));
    }
  }
  std::vector<bool> values(flags.size(), false);
  if (defined.empty()) {
    return values;
  }
  const auto stacked = at::stack(defined).cpu();
  const bool* next = stacked.const_data_ptr<bool>();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    values[i] = flags[i].defined() && *next++;
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
      const auto bad = is_bad(grad);
      if (bad.defined()) {
        watched.bad = watched.bad.defined() ? watched.bad.logical_or(bad) : bad;
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
  // A round of this rank's own gradients, then one of the averages: who skips must do what the
  // other ranks do.
  std::vector<at::Tensor> flags;
  for (auto& watched : watched_) {
    flags.push_back(std::exchange(watched.bad, {}));
  }
  if (options_.policy == NonFinitePolicy::kSkip) {
    for (const auto& watched : watched_) {
      flags.push_back(is_bad(watched.param.grad()));
    }
  }
  const auto bad = read(flags);
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
    if (grad.defined() && is_bad(grad).item<bool>()) {
      return item.key();
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::amp
