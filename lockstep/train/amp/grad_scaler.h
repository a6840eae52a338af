// Scales the loss so that gradients in float16 neither vanish nor overflow; as
// torch.amp.GradScaler.
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);  // Skips the step if a gradient is infinite or NaN.
//   scaler.update();
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;  // After growth_interval steps without an overflow.
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  bool enabled = true;
};

// The contents of Python's state dict; growth_tracker is its "_growth_tracker".
struct GradScalerState {
  double scale = 0;
  double growth_factor = 0;
  double backoff_factor = 0;
  std::int64_t growth_interval = 0;
  std::int64_t growth_tracker = 0;
};

// Ranks do not exchange anything here: DDP's average spreads an overflow of one to all, before any
// of them looks. Calls out of order throw UsageError where Python raises. A disabled one passes
// everything through.
class GradScaler {
 public:
  // Throws UsageError if the growth factor is not more, or the backoff factor not less, than 1.
  explicit GradScaler(const GradScalerOptions& options = {});

  // The scale is on the device of the first tensor.
  [[nodiscard]] at::Tensor scale(const at::Tensor& outputs);
  [[nodiscard]] std::vector<at::Tensor> scale(const std::vector<at::Tensor>& outputs);

  // Divides the gradients by the scale, sparse ones too. Call it if you clip them before step().
  // NOLINTNEXTLINE(readability-identifier-naming): PyTorch's name.
  void unscale_(optim::Optimizer& optimizer);
  // Unscales, unless that was done. Waits for the device, but not where the optimizer's step is
  // fused kernels, which look themselves.
  void step(optim::Optimizer& optimizer);
  // Once after the steps of all optimizers: grows the scale, or backs off. Waits for nothing.
  void update();
  void update(double new_scale);

  [[nodiscard]] double get_scale() const;  // Waits for the device. 1 if disabled.
  [[nodiscard]] bool is_enabled() const { return options_.enabled; }

  // Nothing if disabled, where Python's is empty.
  [[nodiscard]] std::optional<GradScalerState> state_dict() const;
  // Throws UsageError if there is none; ignored if disabled.
  void load_state_dict(const std::optional<GradScalerState>& state);

 private:
  enum class Stage { kReady, kUnscaled, kStepped };
  using PerDevice = std::vector<std::pair<at::Device, at::Tensor>>;
  struct PerOptimizer {
    std::uint64_t graph = 0;  // The number of the one that was recorded when this was made.
    Stage stage = Stage::kReady;
    PerDevice found_inf;
  };

  void require_scale(const char* operation) const;
  // Since the last update(). What a recording left that failed was never computed, and is
  // forgotten.
  [[nodiscard]] PerOptimizer& per_optimizer(const optim::Optimizer& optimizer);
  [[nodiscard]] PerDevice unscale_gradients(const optim::Optimizer& optimizer,
                                            const at::Tensor& inv_scale, bool allow_half) const;
  void step_fused(optim::Optimizer& optimizer, PerOptimizer& state);
  [[nodiscard]] std::int64_t growth_tracker() const;

  GradScalerOptions options_;
  std::int64_t initial_growth_tracker_ = 0;
  at::Tensor scale_;           // Float32.
  at::Tensor growth_tracker_;  // Int32: steps since the last change.
  std::map<const optim::Optimizer*, PerOptimizer> optimizers_;
};

}  // namespace lockstep::amp
