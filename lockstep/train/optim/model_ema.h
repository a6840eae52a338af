// An average of a network's weights over its training, which often does better than the last ones.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace lockstep::optim {

struct ModelEmaOptions {
  double decay = 0.9999;
  // For update() with a step.
  double min_decay = 0;
  std::int64_t update_after_step = 0;
  bool use_warmup = false;  // The decay grows towards its value: early weights count less.
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
};

// Averages all parameters and buffers, by timm's rules. Those of 16 bits have averages in float32:
// in float16 a decay of 0.9998 rounds to 1.
class ModelEma {
 public:
  // Copies. Make it before DistributedDataParallel wraps the network, or give its module().
  explicit ModelEma(const torch::nn::Module& model, const ModelEmaOptions& options = {});

  // After each step: decay * average + (1 - decay) * weights; timm's ModelEmaV2, of integers too.
  void update(const torch::nn::Module& model);
  // timm's ModelEmaV3: the same by lerp, with the decay of the step; integers are copied.
  void update(const torch::nn::Module& model, std::int64_t step);
  [[nodiscard]] double get_decay(std::int64_t step) const;

  // Takes the weights as they are.
  void set(const torch::nn::Module& model);
  // Puts the averages into a network, such as a clone that is evaluated.
  void copy_to(torch::nn::Module& model) const;

  // By name, as in the network; timm saves them as `state_dict_ema`.
  [[nodiscard]] const torch::OrderedDict<std::string, at::Tensor>& averages() const {
    return averages_;
  }

 private:
  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> matching(
      const torch::nn::Module& model) const;

  ModelEmaOptions options_;
  torch::OrderedDict<std::string, at::Tensor> averages_;
};

}  // namespace lockstep::optim
