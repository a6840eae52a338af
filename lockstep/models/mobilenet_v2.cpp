#include "lockstep/models/mobilenet_v2.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/hardtanh.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/models/require.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep::models {
namespace {

struct ConvOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

torch::nn::Conv2d make_convolution(const ConvOptions& options) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(options.in, options.out, options.kernel)
                               .stride(options.stride)
                               .padding((options.kernel - 1) / 2)
                               .groups(options.groups)
                               .bias(false));
}

// torchvision's Conv2dNormActivation with ReLU6. No Sequential, because one cannot hold another.
class ConvNormRelu6 : public torch::nn::Cloneable<ConvNormRelu6> {
 public:
  explicit ConvNormRelu6(const ConvOptions& options)
      : Cloneable("Conv2dNormActivation"), options_(options) {
    ConvNormRelu6::reset();
  }

  void reset() override {
    conv_ = register_module("0", make_convolution(options_));
    norm_ = register_module("1", nn::BatchNorm2d(options_.out));
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = norm_->forward(conv_->forward(input));
    return at::hardtanh_(x, 0, 6);
  }

 private:
  ConvOptions options_;
  torch::nn::Conv2d conv_{nullptr};
  nn::BatchNorm2d norm_{nullptr};
};

struct ResidualOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t stride = 1;
  std::int64_t expand_ratio = 1;
};

// More channels, a convolution of each by itself, fewer channels again.
class InvertedResidual : public torch::nn::Cloneable<InvertedResidual> {
 public:
  explicit InvertedResidual(const ResidualOptions& options)
      : Cloneable("InvertedResidual"), options_(options) {
    InvertedResidual::reset();
  }

  void reset() override {
    const auto& [in, out, stride, expand_ratio] = options_;
    const std::int64_t hidden = in * expand_ratio;
    torch::nn::Sequential conv;
    if (expand_ratio != 1) {
      conv->push_back(
          std::make_shared<ConvNormRelu6>(ConvOptions{.in = in, .out = hidden, .kernel = 1}));
    }
    conv->push_back(std::make_shared<ConvNormRelu6>(
        ConvOptions{.in = hidden, .out = hidden, .stride = stride, .groups = hidden}));
    conv->push_back(make_convolution({.in = hidden, .out = out, .kernel = 1}));
    conv->push_back(nn::BatchNorm2d(out));
    conv_ = register_module("conv", conv);
  }

  at::Tensor forward(const at::Tensor& input) {
    const bool adds = options_.stride == 1 && options_.in == options_.out;
    return adds ? input + conv_->forward(input) : conv_->forward(input);
  }

 private:
  ResidualOptions options_;
  torch::nn::Sequential conv_{nullptr};
};

struct Stage {
  std::int64_t expand_ratio;
  std::int64_t channels;
  std::int64_t blocks;
  std::int64_t stride;  // In the first block.
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr std::int64_t kFirstChannels = 32;
constexpr std::int64_t kLastChannels = 1280;

}  // namespace

MobileNetV2::MobileNetV2(const MobileNetV2Options& options)
    : Cloneable("MobileNetV2"), options_(options) {
  require_positive("mobilenet_v2", "num_classes", options.num_classes);
  require_positive("mobilenet_v2", "in_channels", options.in_channels);
  MobileNetV2::reset();
}

void MobileNetV2::reset() {
  torch::nn::Sequential features;
  features->push_back(std::make_shared<ConvNormRelu6>(
      ConvOptions{.in = options_.in_channels, .out = kFirstChannels, .stride = 2}));
  std::int64_t channels = kFirstChannels;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      features->push_back(
          std::make_shared<InvertedResidual>(ResidualOptions{.in = channels,
                                                             .out = stage.channels,
                                                             .stride = i == 0 ? stage.stride : 1,
                                                             .expand_ratio = stage.expand_ratio}));
      channels = stage.channels;
    }
  }
  features->push_back(std::make_shared<ConvNormRelu6>(
      ConvOptions{.in = channels, .out = kLastChannels, .kernel = 1}));
  features_ = register_module("features", features);
  classifier_ = register_module("classifier", torch::nn::Sequential());
  classifier_->push_back(torch::nn::Dropout(options_.dropout));
  classifier_->push_back(torch::nn::Linear(kLastChannels, options_.num_classes));
  initialise();
}

// Batch normalisation is constructed with weight 1 and bias 0 already.
void MobileNetV2::initialise() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut);
    } else if (auto* linear = module->as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0, 0.01);
      torch::nn::init::zeros_(linear->bias);
    }
  }
}

at::Tensor MobileNetV2::forward(const at::Tensor& images) {
  const at::Tensor x = features_->forward(images);
  return classifier_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

std::shared_ptr<MobileNetV2> mobilenet_v2(const MobileNetV2Options& options) {
  return std::make_shared<MobileNetV2>(options);
}

}  // namespace lockstep::models
