// The same network in Python and here, compared bit by bit.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::models {

// Any of ours, whatever its type.
struct Made {
  template <class Net>
  Made(Net net)  // NOLINT(google-explicit-constructor): a test returns what it makes.
      : module(net->shared_from_this()),
        forward([net](const at::Tensor& input) mutable { return net->forward(input); }) {}

  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

struct Pair {
  std::string name;  // In dump_models.py.
  std::vector<std::int64_t> input_shape;
  std::function<Made()> make;
};

// Fails the test unless names, order, shapes and bits of parameters, buffers, output and gradients
// are those of Python. Sets the number of threads to 1.
void expect_bits_of_python(const std::vector<Pair>& pairs);

}  // namespace lockstep::models
