// The networks of the parity tests; models.py has the same ones under the same names.
#pragma once

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/linear.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <memory>
#include <string>
#include <utility>

namespace lockstep::parity {

inline torch::nn::Sequential mlp() {
  using namespace torch::nn;
  return Sequential(Linear(20, 64), ReLU(), Dropout(0.2), Linear(64, 64), ReLU(), Linear(64, 10));
}

// Large enough for two buckets of the default sizes.
inline torch::nn::Sequential wide() {
  using namespace torch::nn;
  return Sequential(Linear(20, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 512), ReLU(),
                    Linear(512, 10));
}

inline torch::nn::Sequential convnet() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, 16, 3).padding(1)), BatchNorm2d(16), ReLU(),
                    MaxPool2d(2), Conv2d(Conv2dOptions(16, 32, 3).padding(1)), BatchNorm2d(32),
                    ReLU(), MaxPool2d(2), Flatten(), Linear(32 * 7 * 7, 10));
}

// Goes through one of its branches, or none; the second output is not meant for a loss.
struct Branches : torch::nn::Module {
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x, const std::string& branch) {
    auto hidden = at::relu(trunk(x));
    if (!branch.empty()) {
      hidden = named_children()[branch]->as<torch::nn::Linear>()->forward(hidden);
    }
    return {head(hidden), aside(hidden)};
  }

  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(20, 16));
  torch::nn::Linear left = register_module("left", torch::nn::Linear(16, 16));
  torch::nn::Linear right = register_module("right", torch::nn::Linear(16, 16));
  torch::nn::Linear rare = register_module("rare", torch::nn::Linear(16, 16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 10));
  torch::nn::Linear aside = register_module("aside", torch::nn::Linear(16, 3));
};

// One layer under two names, and one weight in two layers.
struct Shared : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = at::relu(again(at::relu(first(x))));
    return head(torch::nn::functional::linear(encoder(hidden), weight.t()));
  }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(20, 20));
  torch::nn::Linear again = register_module("again", first);
  torch::nn::Linear encoder = register_module("encoder", torch::nn::Linear(20, 10));
  at::Tensor weight = register_parameter("weight", encoder->weight);
  torch::nn::Linear head = register_module("head", torch::nn::Linear(20, 10));
};

// Uses one layer twice and another one never.
struct Fixed : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(at::relu(first(at::relu(first(x))))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(20, 20));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(20, 20));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(20, 10));
};

// Layers of three dtypes.
struct Mixed : torch::nn::Module {
  Mixed() {
    exact->to(at::kDouble);
    exact_too->to(at::kDouble);
    rough->to(at::kBFloat16);
  }

  at::Tensor forward(const at::Tensor& x) {
    auto hidden = at::relu(exact(at::relu(first(x)).to(at::kDouble)));
    hidden = at::relu(rough(hidden.to(at::kBFloat16)));
    hidden = at::relu(exact_too(second(hidden.to(at::kFloat)).to(at::kDouble)));
    return head(hidden.to(at::kFloat));
  }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(20, 16));
  torch::nn::Linear exact = register_module("exact", torch::nn::Linear(16, 16));
  torch::nn::Linear rough = register_module("rough", torch::nn::Linear(16, 16));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(16, 16));
  torch::nn::Linear exact_too = register_module("exact_too", torch::nn::Linear(16, 16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 10));
};

// An embedding with sparse gradients.
struct Words : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(embedding(x).mean(1)); }

  torch::nn::Embedding embedding = register_module(
      "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 12).sparse(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(12, 10));
};

}  // namespace lockstep::parity
