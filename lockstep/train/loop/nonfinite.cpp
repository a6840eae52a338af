#include "lockstep/train/loop/nonfinite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>

#include <cmath>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

[[noreturn]] void fail(std::int64_t step, const std::string& what) {
  throw Error("step " + std::to_string(step) + ": " + what +
              "; no checkpoint was saved of that; HINT: a smaller --lr, --clip-grad 1, or "
              "--nonfinite ignore");
}

}  // namespace

bool checks_gradients(const TrainConfig& config, at::Device device) {
  return config.nonfinite == "skip" || (config.nonfinite == "abort" && device.is_cpu());
}

void require_finite_losses(const TrainConfig& config, std::int64_t step,
                           const std::vector<Tally::Sums>& ranks, std::int64_t samples_per_step) {
  if (config.nonfinite != "abort") {
    return;  // A step that is left out has such a loss.
  }
  // One rank's NaN is in the weights, and so in all losses, one step later.
  const auto since = [&](std::size_t rank) { return ranks[rank][3] - ranks[rank][4]; };
  std::size_t first = 0;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    first = since(rank) > since(first) ? rank : first;
  }
  if (since(first) > 0) {
    const double steps = std::ceil(since(first) / static_cast<double>(samples_per_step));
    fail(step + 1 - static_cast<std::int64_t>(steps),
         "the loss of rank " + std::to_string(first) + " is infinite or NaN");
  }
}

void require_finite_weights(const TrainConfig& config, std::int64_t step,
                            const torch::nn::Module& module) {
  if (config.nonfinite == "ignore") {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    if (item.value().numel() == 0) {
      continue;
    }
    const auto [low, high] = at::aminmax(item.value());
    if (!std::isfinite(low.item<double>()) || !std::isfinite(high.item<double>())) {
      fail(step, "the weights of '" + item.key() + "' are infinite or NaN");
    }
  }
}

}  // namespace lockstep::train
