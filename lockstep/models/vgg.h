// torchvision's VGGs with batch normalisation.
//
// Names and order of parameters and buffers, initial values for a seed, and results are those of
// torchvision.models.vgg11_bn and its siblings, so a checkpoint of one fits the other.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>

#include <array>
#include <cstdint>
#include <memory>

namespace lockstep::models {

struct VggOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  double dropout = 0.5;  // Behind the first two linear layers, in training.
};

class Vgg : public torch::nn::Cloneable<Vgg> {
 public:
  using Depths = std::array<std::int64_t, 5>;  // Convolutions of each stage.

  // Draws from the global generator. Throws UsageError if a size is not positive.
  Vgg(const Depths& depths, const VggOptions& options);

  // Takes [N, in_channels, H, W], 224x224 as a rule and at least 32x32; returns [N, num_classes].
  at::Tensor forward(const at::Tensor& images);

  void reset() override;

 private:
  void initialise();

  Depths depths_;
  VggOptions options_;
  torch::nn::Sequential features_{nullptr};
  torch::nn::Sequential classifier_{nullptr};
};

std::shared_ptr<Vgg> vgg11_bn(const VggOptions& options = {});
std::shared_ptr<Vgg> vgg13_bn(const VggOptions& options = {});
std::shared_ptr<Vgg> vgg16_bn(const VggOptions& options = {});
std::shared_ptr<Vgg> vgg19_bn(const VggOptions& options = {});

}  // namespace lockstep::models
