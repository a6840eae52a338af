// The network of run_checkpoint.py, and a folder for files.
#pragma once

#include <ATen/ops/randn.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <memory>

#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep {

inline torch::nn::Sequential toy_network() {
  torch::manual_seed(7);
  torch::nn::Sequential net;  // One after the other: each draws its weights.
  net->push_back(torch::nn::Linear(5, 4));
  net->push_back(torch::nn::BatchNorm1d(4));
  net->push_back(torch::nn::Linear(4, 3));
  return net;
}

inline std::unique_ptr<optim::Optimizer> toy_optimizer(const std::string& name,
                                                       const torch::nn::Sequential& net) {
  if (name == "sgd") {
    return std::make_unique<optim::SGD>(
        net->parameters(), optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  }
  return std::make_unique<optim::AdamW>(net->parameters(), optim::AdamWOptions{.lr = 0.01});
}

inline void train_toy(torch::nn::Sequential& net, optim::Optimizer& optimizer, int first,
                      int last) {
  net->train();
  for (int step = first; step < last; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
    const auto inputs = at::randn({8, 5});
    optimizer.zero_grad();
    net->forward(inputs).square().mean().backward();
    optimizer.step();
  }
}

}  // namespace lockstep
