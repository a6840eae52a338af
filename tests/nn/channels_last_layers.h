// Layers and batches for tests of our kernels for batch normalization.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/batch_norm.h"

namespace lockstep::nn::testing {

using torch::nn::BatchNormOptions;

struct Case {
  std::vector<std::int64_t> sizes;
  at::ScalarType type = at::kBFloat16;
  double center = 0.5;
  double spread = 2;
};

inline at::Tensor values(const Case& what) {
  return (at::randn(what.sizes, at::kCUDA) * what.spread + what.center)
      .to(what.type)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

// A layer of ours or of LibTorch's, whose numbers differ from channel to channel.
template <class Layer>
Layer layer_of(const BatchNormOptions& options, at::ScalarType type = at::kFloat) {
  Layer layer(options);
  layer->to(at::kCUDA);
  if (type != at::kFloat) {
    layer->to(type);
  }
  const c10::NoGradGuard no_grad;
  const auto ramp = at::linspace(0.5, 1.5, options.num_features(), at::kCUDA);
  layer->weight.copy_(ramp);
  layer->bias.copy_(ramp - 1);
  return layer;
}

struct Results {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // For input, weight and bias.
  at::Tensor running_mean;
  at::Tensor running_var;
};

template <class Layer>
Results results_of(Layer& layer, const at::Tensor& input, const at::Tensor& gradient) {
  const auto leaf = input.detach().requires_grad_();
  const auto output = layer->forward(leaf);
  const auto type = output.scalar_type();
  return {.output = output,
          .gradients = torch::autograd::grad({output}, {leaf, layer->weight, layer->bias},
                                             {gradient.to(type)}),
          .running_mean = layer->running_mean,
          .running_var = layer->running_var};
}

// Whether our kernels made it.
inline bool is_ours(const at::Tensor& output) {
  return output.grad_fn()->name().find("ChannelsLastBatchNorm") != std::string::npos;
}

}  // namespace lockstep::nn::testing
