// A small convolutional network for grey images of 28x28, with batch normalisation.
//
// Parameters and buffers have the names, order and initial values of the same nn.Sequential in
// Python: 0.weight, 0.bias, 1.weight, 1.running_mean ...
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>

namespace lockstep::models {

struct ConvnetOptions {
  std::int64_t num_classes = 10;
};

// Takes [N, 1, 28, 28]. Draws from the global generator. Throws UsageError if num_classes is not
// positive.
torch::nn::Sequential convnet(const ConvnetOptions& options = {});

}  // namespace lockstep::models
