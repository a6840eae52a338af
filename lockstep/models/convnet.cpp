#include "lockstep/models/convnet.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/models/require.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/max_pool.h"

namespace lockstep::models {
namespace {

// Halves the image.
void push_stage(torch::nn::Sequential& net, std::int64_t in, std::int64_t out) {
  net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
  net->push_back(nn::BatchNorm2d(out));
  net->push_back(torch::nn::ReLU());
  net->push_back(nn::MaxPool2d(2));
}

}  // namespace

torch::nn::Sequential convnet(const ConvnetOptions& options) {
  require_positive("convnet", "num_classes", options.num_classes);
  require_positive("convnet", "in_channels", options.in_channels);
  require_at_least(4, "convnet", {options.height, options.width});
  torch::nn::Sequential net;
  push_stage(net, options.in_channels, 16);
  push_stage(net, 16, 32);
  net->push_back(torch::nn::Flatten());
  const std::int64_t features = 32 * (options.height / 4) * (options.width / 4);
  net->push_back(torch::nn::Linear(features, options.num_classes));
  return net;
}

}  // namespace lockstep::models
