#include "lockstep/models/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/init.h>

#include <string>
#include <vector>

#include "lockstep/models/require.h"

namespace lockstep::models {
namespace {

torch::nn::Conv2d make_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                            std::int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BlockOptions {
  ResNetBlock kind = ResNetBlock::kBasic;
  std::int64_t in_planes = 0;
  std::int64_t planes = 0;
  std::int64_t stride = 1;
};

std::int64_t out_planes(ResNetBlock kind, std::int64_t planes) {
  return kind == ResNetBlock::kBasic ? planes : 4 * planes;
}

// Convolutions, each normalised, whose result is added to the input: two of 3x3, or 1x1, 3x3
// (with the stride, as in torchvision) and 1x1.
class Block : public torch::nn::Cloneable<Block> {
 public:
  explicit Block(const BlockOptions& options)
      : Cloneable(options.kind == ResNetBlock::kBasic ? "BasicBlock" : "Bottleneck"),
        options_(options) {
    Block::reset();
  }

  void reset() override {
    const auto& [kind, in, planes, stride] = options_;
    const std::int64_t out = out_planes(kind, planes);
    convs_.clear();
    norms_.clear();
    downsample_ = nullptr;
    // Made first and registered last, as torchvision does: it draws from the generator.
    if (stride != 1 || in != out) {
      downsample_ = torch::nn::Sequential(make_conv(in, out, 1, stride), nn::BatchNorm2d(out));
    }
    if (kind == ResNetBlock::kBasic) {
      add(make_conv(in, planes, 3, stride), planes);
      add(make_conv(planes, out, 3), out);
    } else {
      add(make_conv(in, planes, 1), planes);
      add(make_conv(planes, planes, 3, stride), planes);
      add(make_conv(planes, out, 1), out);
    }
    if (!downsample_.is_empty()) {
      register_module("downsample", downsample_);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      x = norms_[i]->forward(convs_[i]->forward(x));
      if (i + 1 < convs_.size()) {
        x.relu_();
      }
    }
    x += downsample_.is_empty() ? input : downsample_->forward(input);
    return x.relu_();
  }

 private:
  void add(torch::nn::Conv2d conv, std::int64_t planes) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, std::move(conv)));
    norms_.push_back(register_module("bn" + number, nn::BatchNorm2d(planes)));
  }

  BlockOptions options_;
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<nn::BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};

}  // namespace

ResNet::ResNet(const ResNetShape& shape, const ResNetOptions& options)
    : Cloneable("ResNet"), shape_(shape), options_(options) {
  require_positive("resnet", "num_classes", options.num_classes);
  require_positive("resnet", "in_channels", options.in_channels);
  for (const std::int64_t depth : shape.depths) {
    require_positive("resnet", "the depth of a layer", depth);
  }
  ResNet::reset();
}

void ResNet::reset() {
  conv1_ = register_module("conv1", make_conv(options_.in_channels, 64, 7, 2));
  bn1_ = register_module("bn1", nn::BatchNorm2d(64));
  std::int64_t planes = 64;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i] = register_module("layer" + std::to_string(i + 1), make_layer(i, planes));
    planes = out_planes(shape_.block, std::int64_t{64} << i);
  }
  fc_ = register_module("fc", torch::nn::Linear(planes, options_.num_classes));
  initialise();
}

torch::nn::Sequential ResNet::make_layer(std::size_t index, std::int64_t in_planes) const {
  BlockOptions options{.kind = shape_.block,
                       .in_planes = in_planes,
                       .planes = std::int64_t{64} << index,
                       .stride = index == 0 ? 1 : 2};
  torch::nn::Sequential layer;
  for (std::int64_t i = 0; i < shape_.depths[index]; ++i) {
    layer->push_back(std::make_shared<Block>(options));
    options.in_planes = out_planes(options.kind, options.planes);
    options.stride = 1;
  }
  return layer;
}

// Batch normalisation is constructed with weight 1 and bias 0 already.
void ResNet::initialise() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
  if (!options_.zero_init_residual) {
    return;
  }
  const std::string last = shape_.block == ResNetBlock::kBasic ? ".bn2.weight" : ".bn3.weight";
  for (auto& parameter : named_parameters()) {
    if (parameter.key().ends_with(last)) {
      torch::nn::init::zeros_(parameter.value());
    }
  }
}

at::Tensor ResNet::forward(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  x = at::max_pool2d(x, 3, 2, 1);
  for (auto& layer : layers_) {
    x = layer->forward(x);
  }
  return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

std::shared_ptr<ResNet> resnet18(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNetShape{ResNetBlock::kBasic, {2, 2, 2, 2}}, options);
}

std::shared_ptr<ResNet> resnet34(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNetShape{ResNetBlock::kBasic, {3, 4, 6, 3}}, options);
}

std::shared_ptr<ResNet> resnet50(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNetShape{ResNetBlock::kBottleneck, {3, 4, 6, 3}}, options);
}

std::shared_ptr<ResNet> resnet101(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNetShape{ResNetBlock::kBottleneck, {3, 4, 23, 3}}, options);
}

std::shared_ptr<ResNet> resnet152(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNetShape{ResNetBlock::kBottleneck, {3, 8, 36, 3}}, options);
}

}  // namespace lockstep::models
