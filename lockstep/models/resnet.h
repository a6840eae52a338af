// torchvision's ResNets.
//
// Names and order of parameters and buffers, initial values for a seed, and results are those of
// torchvision.models.resnet18 and its siblings, so a checkpoint of one fits the other.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <memory>

#include "lockstep/nn/batch_norm.h"

namespace lockstep::models {

struct ResNetOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  // Residual branches start as zero, so that each block starts as the identity.
  bool zero_init_residual = false;
};

enum class ResNetBlock { kBasic, kBottleneck };

struct ResNetShape {
  ResNetBlock block = ResNetBlock::kBasic;
  std::array<std::int64_t, 4> depths{};  // Blocks of layer1 to layer4.
};

class ResNet : public torch::nn::Cloneable<ResNet> {
 public:
  // Draws from the global generator. Throws UsageError if a size is not positive.
  ResNet(const ResNetShape& shape, const ResNetOptions& options);

  // Takes [N, in_channels, H, W], 224x224 as a rule; returns [N, num_classes].
  at::Tensor forward(const at::Tensor& images);

  void reset() override;

 private:
  torch::nn::Sequential make_layer(std::size_t index, std::int64_t in_planes) const;
  void initialise();

  ResNetShape shape_;
  ResNetOptions options_;
  torch::nn::Conv2d conv1_{nullptr};
  nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> layers_{nullptr, nullptr, nullptr, nullptr};
  torch::nn::Linear fc_{nullptr};
};

std::shared_ptr<ResNet> resnet18(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet34(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet50(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet101(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet152(const ResNetOptions& options = {});

}  // namespace lockstep::models
