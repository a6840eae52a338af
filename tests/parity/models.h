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

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/nn/recompute.h"

namespace lockstep::parity {

inline torch::nn::Sequential mlp() {
  using namespace torch::nn;
  return Sequential(Linear(20, 64), ReLU(), Dropout(0.2), Linear(64, 64), ReLU(), Linear(64, 10));
}

// Its hidden layers' gradients are large enough to be allocated in their buckets.
inline torch::nn::Sequential broad() {
  using namespace torch::nn;
  return Sequential(Linear(20, 128), ReLU(), Dropout(0.2), Linear(128, 128), ReLU(),
                    Linear(128, 128), ReLU(), Linear(128, 10));
}

// Large enough for two buckets of the default sizes.
inline torch::nn::Sequential wide() {
  using namespace torch::nn;
  return Sequential(Linear(20, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 512), ReLU(),
                    Linear(512, 10));
}

inline torch::nn::Sequential convnet_of(std::int64_t first, std::int64_t second) {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(1, first, 3).padding(1)), BatchNorm2d(first), ReLU(),
                    MaxPool2d(2), Conv2d(Conv2dOptions(first, second, 3).padding(1)),
                    BatchNorm2d(second), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(second * 7 * 7, 10));
}
inline torch::nn::Sequential convnet() { return convnet_of(16, 32); }
inline torch::nn::Sequential broad_convnet() { return convnet_of(32, 48); }

// Goes through one of its branches, or none; the second output is not meant for a loss.
struct Branches : torch::nn::Module {
  explicit Branches(std::int64_t the_width = 16) : width(the_width) {}

  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x, const std::string& branch) {
    auto hidden = at::relu(trunk(x));
    if (!branch.empty()) {
      hidden = named_children()[branch]->as<torch::nn::Linear>()->forward(hidden);
    }
    return {head(hidden), aside(hidden)};
  }

  std::int64_t width;
  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(20, width));
  torch::nn::Linear left = register_module("left", torch::nn::Linear(width, width));
  torch::nn::Linear right = register_module("right", torch::nn::Linear(width, width));
  torch::nn::Linear rare = register_module("rare", torch::nn::Linear(width, width));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 10));
  torch::nn::Linear aside = register_module("aside", torch::nn::Linear(width, 3));
};

// One layer under two names, and one weight in two layers.
struct Shared : torch::nn::Module {
  explicit Shared(std::int64_t the_width = 20) : width(the_width) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = at::relu(again(at::relu(first(x))));
    return head(torch::nn::functional::linear(encoder(hidden), weight.t()));
  }

  std::int64_t width;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(width, width));
  torch::nn::Linear again = register_module("again", first);
  torch::nn::Linear encoder = register_module("encoder", torch::nn::Linear(width, width / 2));
  at::Tensor weight = register_parameter("weight", encoder->weight);
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 10));
};

// Uses one layer twice and another one never.
struct Fixed : torch::nn::Module {
  explicit Fixed(std::int64_t the_width = 20) : width(the_width) {}

  at::Tensor forward(const at::Tensor& x) { return head(at::relu(first(at::relu(first(x))))); }

  std::int64_t width;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(width, width));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(width, width));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 10));
};

// Layers of three dtypes.
struct Mixed : torch::nn::Module {
  explicit Mixed(std::int64_t the_width = 16) : width(the_width) {
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

  std::int64_t width;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(20, width));
  torch::nn::Linear exact = register_module("exact", torch::nn::Linear(width, width));
  torch::nn::Linear rough = register_module("rough", torch::nn::Linear(width, width));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(width, width));
  torch::nn::Linear exact_too = register_module("exact_too", torch::nn::Linear(width, width));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 10));
};

// Computes its block again in backward instead of keeping what it made: a backward inside another
// one.
struct Recomputed : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(again(at::relu(trunk(x)))); }
  at::Tensor again(const at::Tensor& hidden) {
    return utils::checkpoint([this](const at::Tensor& in) { return block->forward(in); }, hidden);
  }

  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(20, 128));
  torch::nn::Sequential block =
      register_module("block", torch::nn::Sequential(torch::nn::Linear(128, 128), torch::nn::ReLU(),
                                                     torch::nn::Linear(128, 128)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(128, 10));
};

// Its block is in two checkpoints, so its parameters get two gradients in a step.
struct RecomputedTwice : Recomputed {
  at::Tensor forward(const at::Tensor& x) { return head(again(again(at::relu(trunk(x))))); }
};

// An embedding with sparse gradients.
struct Words : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return head(embedding(x).mean(1)); }

  torch::nn::Embedding embedding = register_module(
      "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 12).sparse(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(12, 10));
};

}  // namespace lockstep::parity
