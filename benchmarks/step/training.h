// What every contender of `lockstep bench step` repeats: forward, loss, backward and SGD of one
// network on one batch, with DistributedDataParallel or without. benchmarks/peers/step.py has the
// same.
//
// Weights depend on the model alone and the batch on model and rank, in C++ and Python alike, so
// losses can be compared.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/parallel/replica.h"
#include "lockstep/train/amp/grad_scaler.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::bench {

struct TrainingOptions {
  std::string model;             // mlp, convnet, resnet18 or resnet50.
  std::int64_t batch_size = 32;  // This rank's.
  // On the GPU images of a ResNet have 224 pixels, channels last.
  bool cuda = false;
  // What a ResNet computes in on the GPU: bf16 (autocast), fp16 (autocast and GradScaler), tf32
  // (float32 whose products have 10 bits) or fp32.
  std::string precision = "bf16";
  bool graphed = false;       // The step is recorded as a CUDA graph and replayed.
  bool reduce_alone = false;  // A group of one rank sums its gradients, too.
  bool spoiled = false;       // Starts from wrong weights, to see that it is noticed.
  // What DistributedDataParallel does otherwise: a communication hook, "bf16" or "power_sgd";
  // "zero", the optimizer's state in shares; or "in_backward", the optimizer's steps in backward.
  std::string variant;
  int replicas = 1;  // More: DataParallel in this process, with a batch for each.
  // Ranks of a group only wait for each other after each step, and average nothing: what
  // DistributedDataParallel would take if summing cost no time.
  bool barrier_only = false;
};

class Training {
 public:
  // Without a group: the plain module, no DistributedDataParallel.
  Training(const TrainingOptions& options, const std::optional<Group>& group);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // The loss before its update; the next step may overwrite it. Throws Error if the step was to be
  // recorded and cannot be.
  at::Tensor step();

  // From now on the learning rate is 0: steps compute all they did, always with these weights. How
  // long max pooling takes depends on its input, so weights that went another way are no peer: the
  // convnet's, trained on one batch instead of two, took 25 % less.
  void hold_weights();

  // Nothing without DistributedDataParallel.
  [[nodiscard]] std::optional<DistributedDataParallelStats> stats() const;
  // Bytes of the optimizer's state on this rank.
  [[nodiscard]] std::size_t optimizer_bytes() const;

 private:
  void make(const TrainingOptions& options, const std::optional<Group>& group, auto network);
  void make_batch(const TrainingOptions& options, int first, at::Device device);
  at::Tensor train(const at::Tensor& images, const at::Tensor& labels);

  std::optional<c10::ScalarType> autocast_;
  amp::GradScaler scaler_;
  std::int64_t counted_;  // Samples whose loss is told: those of the first replica.
  at::Tensor images_;
  at::Tensor labels_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  std::function<DistributedDataParallelStats()> stats_;
  std::optional<Group> barrier_;
  std::unique_ptr<optim::SGD> optimizer_;
  // Eager steps go through none.
  std::optional<GraphedStep<std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>>>
      graphed_;
};

}  // namespace lockstep::bench
