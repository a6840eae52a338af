// A multilayer perceptron: linear layers with ReLU between them.
//
// Parameters have the names, order and initial values of the same nn.Sequential in Python:
// 0.weight, 0.bias, 2.weight ...
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <vector>

namespace lockstep::models {

struct MlpOptions {
  std::int64_t in_features = 784;  // An image is flattened by the caller.
  std::vector<std::int64_t> hidden = {256, 256, 256};
  std::int64_t num_classes = 10;
};

// Takes [N, in_features]. Draws from the global generator. Throws UsageError if a size is not
// positive.
torch::nn::Sequential mlp(const MlpOptions& options = {});

}  // namespace lockstep::models
