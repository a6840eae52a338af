#include "lockstep/models/vgg.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/models/require.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/max_pool.h"

namespace lockstep::models {
namespace {

constexpr Vgg::Depths kChannels{64, 128, 256, 512, 512};
constexpr std::int64_t kPooled = 7;  // The classifier sees 7x7, whatever the images' size.
constexpr std::int64_t kHidden = 4096;

torch::nn::ReLU in_place_relu() { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); }

}  // namespace

Vgg::Vgg(const Depths& depths, const VggOptions& options)
    : Cloneable("VGG"), depths_(depths), options_(options) {
  require_positive("vgg", "num_classes", options.num_classes);
  require_positive("vgg", "in_channels", options.in_channels);
  for (const std::int64_t depth : depths) {
    require_positive("vgg", "the depth of a stage", depth);
  }
  Vgg::reset();
}

void Vgg::reset() {
  features_ = register_module("features", torch::nn::Sequential());
  std::int64_t in = options_.in_channels;
  for (std::size_t stage = 0; stage < depths_.size(); ++stage) {
    const std::int64_t out = kChannels[stage];
    for (std::int64_t i = 0; i < depths_[stage]; ++i) {
      features_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
      features_->push_back(nn::BatchNorm2d(out));
      features_->push_back(in_place_relu());
      in = out;
    }
    features_->push_back(nn::MaxPool2d(2));
  }
  classifier_ = register_module("classifier", torch::nn::Sequential());
  in *= kPooled * kPooled;
  for (int i = 0; i < 2; ++i) {
    classifier_->push_back(torch::nn::Linear(in, kHidden));
    classifier_->push_back(in_place_relu());
    classifier_->push_back(torch::nn::Dropout(options_.dropout));
    in = kHidden;
  }
  classifier_->push_back(torch::nn::Linear(in, options_.num_classes));
  initialise();
}

// Batch normalisation is constructed with weight 1 and bias 0 already.
void Vgg::initialise() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
      torch::nn::init::zeros_(conv->bias);
    } else if (auto* linear = module->as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0, 0.01);
      torch::nn::init::zeros_(linear->bias);
    }
  }
}

at::Tensor Vgg::forward(const at::Tensor& images) {
  const at::Tensor x = features_->forward(images);
  return classifier_->forward(at::adaptive_avg_pool2d(x, {kPooled, kPooled}).flatten(1));
}

std::shared_ptr<Vgg> vgg11_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(Vgg::Depths{1, 1, 2, 2, 2}, options);
}

std::shared_ptr<Vgg> vgg13_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(Vgg::Depths{2, 2, 2, 2, 2}, options);
}

std::shared_ptr<Vgg> vgg16_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(Vgg::Depths{2, 2, 3, 3, 3}, options);
}

std::shared_ptr<Vgg> vgg19_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(Vgg::Depths{2, 2, 4, 4, 4}, options);
}

}  // namespace lockstep::models
