// Small networks and helpers for tests of data-parallel training.
#pragma once

#include <ATen/ops/arange.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/parallel/autograd/tensor_visitor.h"
#include "tests/comm/ranks.h"

namespace lockstep::testing {

inline at::Tensor input_of(int rank) {
  return at::arange(32, at::kFloat).view({8, 4}).div(10).sin() + static_cast<double>(rank);
}

inline bool same_on_all_ranks(const Group& world, const at::Tensor& tensor) {
  const auto first = tensor.detach().clone();
  world.broadcast(first).wait();
  // All ranks answer the same, so that tests go the same way on all of them.
  const auto same = at::full({1}, first.equal(tensor) ? 1 : 0, at::kInt);
  world.all_reduce(same, {.op = ReduceOp::kMin}).wait();
  return same.item<int>() == 1;
}

// Two branches, one of which (0, 1) or both (2) take part.
struct Branches : torch::nn::Module {
  struct Output {
    at::Tensor first;
    at::Tensor second;
  };
  Branches() {
    register_module("first", first);
    register_module("second", second);
  }
  Output forward(const at::Tensor& input, int used) {
    return {used != 1 ? first->forward(input) : at::Tensor(),
            used != 0 ? second->forward(input) : at::Tensor()};
  }
  torch::nn::Linear first{4, 2};
  torch::nn::Linear second{4, 2};
};

inline void visit_tensors(Branches::Output& output, const TensorVisitor& visit) {
  visit(output.first);
  visit(output.second);
}

}  // namespace lockstep::testing
