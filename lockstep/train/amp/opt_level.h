// Apex's four levels of mixed precision, O0 to O3, as one option.
//
//   amp::MixedPrecision amp(*net, {.level = amp::OptLevel::kO2});
//   optim::SGD sgd(amp.params(), ...);
//   ... for each batch:
//   at::Tensor loss;
//   {
//     const auto guard = amp.autocast(at::kCUDA);
//     loss = loss_of(net->forward(amp.input(images)).to(at::kFloat), labels);
//   }
//   amp.scale(loss).backward();
//   amp.step(sgd);
//   amp.zero_grad(sgd);
#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/amp/autocast.h"
#include "lockstep/train/amp/grad_scaler.h"

namespace lockstep::amp {

enum class OptLevel {
  kO0,  // Float32 throughout.
  kO1,  // Weights in float32; operations choose their type (Autocast); the loss is scaled.
  kO2,  // A model in half, but for its BatchNorms; the optimizer has float32 copies of the weights;
        // the loss is scaled.
  kO3,  // Half throughout: as fast as it gets, and as coarse.
};

// "O0" to "O3". Throws UsageError with the text otherwise.
OptLevel parse_opt_level(const std::string& text);

struct MixedPrecisionOptions {
  OptLevel level = OptLevel::kO1;
  // kHalf or kBFloat16. With bfloat16, whose range is float32's, the loss is not scaled.
  at::ScalarType type = at::kHalf;
  GradScalerOptions scaler = {};
};

// Made before DistributedDataParallel and the optimizer, since it casts the model. There is one
// optimizer, with all of params() that take a gradient: where the loss is scaled or there are
// master weights, another is refused with UsageError, since each step() updates scale and model.
class MixedPrecision {
 public:
  // Throws UsageError if the type is neither of the two, or the model's parameters are not float32.
  explicit MixedPrecision(torch::nn::Module& model, const MixedPrecisionOptions& options = {});

  // What the optimizer is to have: the model's parameters, or their copies in float32.
  [[nodiscard]] const std::vector<at::Tensor>& params() const {
    return masters_.empty() ? model_params_ : masters_;
  }
  // What the model is to have: floating-point tensors in its type.
  [[nodiscard]] at::Tensor input(const at::Tensor& tensor) const;
  // For the forward pass; does nothing but at O1.
  [[nodiscard]] Autocast autocast(at::DeviceType device) const;
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss) { return scaler_.scale(loss); }

  // Call it before step() if you clip the gradients of params().
  // NOLINTNEXTLINE(readability-identifier-naming): PyTorch's name.
  void unscale_(optim::Optimizer& optimizer);
  // One step of params() and, at O2, of the model with them; skipped if a gradient is infinite or
  // NaN. Then updates the scale.
  void step(optim::Optimizer& optimizer);
  // Zeroes the gradients of the optimizer and of the model.
  void zero_grad(optim::Optimizer& optimizer);

  [[nodiscard]] GradScaler& scaler() { return scaler_; }
  [[nodiscard]] const GradScaler& scaler() const { return scaler_; }
  // After a checkpoint was loaded into the model: its weights are the master weights now.
  void copy_model_to_masters();

 private:
  void require_all_params(const optim::Optimizer& optimizer) const;
  void hand_over_gradients();

  MixedPrecisionOptions options_;
  std::vector<at::Tensor> model_params_;
  std::vector<at::Tensor> masters_;  // One for each parameter at O2, else none.
  GradScaler scaler_;
  bool handed_over_ = false;  // The gradients of this step, to the masters.
};

}  // namespace lockstep::amp
