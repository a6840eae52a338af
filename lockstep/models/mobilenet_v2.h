// torchvision's MobileNetV2.
//
// Names and order of parameters and buffers, initial values for a seed, and results are those of
// torchvision.models.mobilenet_v2, so a checkpoint of one fits the other.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>

namespace lockstep::models {

struct MobileNetV2Options {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  double dropout = 0.2;  // Before the last layer, in training.
};

class MobileNetV2 : public torch::nn::Cloneable<MobileNetV2> {
 public:
  // Draws from the global generator. Throws UsageError if a size is not positive.
  explicit MobileNetV2(const MobileNetV2Options& options);

  // Takes [N, in_channels, H, W], 224x224 as a rule; returns [N, num_classes].
  at::Tensor forward(const at::Tensor& images);

  void reset() override;

 private:
  void initialise();

  MobileNetV2Options options_;
  torch::nn::Sequential features_{nullptr};
  torch::nn::Sequential classifier_{nullptr};
};

std::shared_ptr<MobileNetV2> mobilenet_v2(const MobileNetV2Options& options = {});

}  // namespace lockstep::models
