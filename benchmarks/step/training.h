// What every side of `lockstep bench step` repeats: forward, loss, backward and SGD of one network
// on one batch, with DistributedDataParallel or without. benchmarks/peers/step.py has the same.
//
// Weights depend on the model alone and the batch on model and rank, in C++ and Python alike, so
// losses can be compared.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/replica.h"

namespace lockstep::bench {

struct TrainingOptions {
  std::string model;             // mlp, convnet or resnet18.
  std::int64_t batch_size = 32;  // Of this rank.
  // On the GPU images of resnet18 have 224 pixels and it computes in bfloat16, channels last.
  bool cuda = false;
  bool spoiled = false;  // Starts from wrong weights, to see that it is noticed.
  // Ranks of a group only wait for each other after each step, and average nothing: what
  // DistributedDataParallel would take if summing cost no time.
  bool barrier_only = false;
};

class Training {
 public:
  // Without a group: the plain module, no DistributedDataParallel.
  Training(const TrainingOptions& options, const std::optional<Group>& group);

  at::Tensor step();  // The loss before its update.

  // From now on the learning rate is 0: steps compute all they did, always with these weights. How
  // long max pooling takes depends on its input, so weights that went another way are no peer: the
  // convnet's, trained on one batch instead of two, took 25 % less.
  void hold_weights();

  // Nothing without DistributedDataParallel.
  [[nodiscard]] std::optional<DistributedDataParallelStats> stats() const;

 private:
  bool autocast_;
  at::Tensor images_;
  at::Tensor labels_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  std::function<DistributedDataParallelStats()> stats_;
  std::optional<Group> barrier_;
  std::optional<torch::optim::SGD> optimizer_;
};

}  // namespace lockstep::bench
