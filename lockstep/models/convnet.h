// A small convolutional network for small images, with batch normalisation.
//
// Parameters and buffers have the names, order and initial values of the same nn.Sequential in
// Python: 0.weight, 0.bias, 1.weight, 1.running_mean ...
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>

namespace lockstep::models {

struct ConvnetOptions {
  std::int64_t num_classes = 10;
  std::int64_t in_channels = 1;
  std::int64_t height = 28;  // At least 4, as the width.
  std::int64_t width = 28;
};

// Takes [N, in_channels, height, width]. Draws from the global generator. Throws UsageError if a
// size is too small.
torch::nn::Sequential convnet(const ConvnetOptions& options = {});

}  // namespace lockstep::models
