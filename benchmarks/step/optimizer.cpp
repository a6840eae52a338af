#include "benchmarks/step/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/optim/sgd.h>

#include "lockstep/device/graph.h"

namespace lockstep::bench {
namespace {

constexpr double kLearningRate = 0.01;
constexpr double kMomentum = 0.9;
constexpr double kWeightDecay = 1e-4;

class LibtorchSgd : public Optimizer {
 public:
  explicit LibtorchSgd(const std::vector<at::Tensor>& parameters)
      : sgd_(parameters, torch::optim::SGDOptions(kLearningRate)
                             .momentum(kMomentum)
                             .weight_decay(kWeightDecay)) {}

  void zero_grad() override { sgd_.zero_grad(); }
  void step() override { sgd_.step(); }
  void set_lr(double lr) override {
    for (auto& group : sgd_.param_groups()) {
      group.options().set_lr(lr);
    }
  }

 private:
  torch::optim::SGD sgd_;
};

// The fused kernel gives 65,536 elements to a block and takes 48 tensors in a launch. With a small
// network most of an H200 does nothing: 14 of the MLP's 130 us (2026-11-16). Cuts tensors into
// pieces that fill it, and the step takes 120 us; large networks stay whole.
std::vector<at::Tensor> cut(const std::vector<at::Tensor>& tensors, std::int64_t total) {
  constexpr std::int64_t kPieces = 40;
  constexpr std::int64_t kLarge = std::int64_t{1} << 22;
  if (total > kLarge) {
    return tensors;
  }
  const std::int64_t piece = (total / kPieces / 1024 + 1) * 1024;
  std::vector<at::Tensor> pieces;
  for (const auto& tensor : tensors) {
    for (const auto& each : tensor.view(-1).split(piece)) {
      pieces.push_back(each);
    }
  }
  return pieces;
}

class FusedSgd : public Optimizer {
 public:
  explicit FusedSgd(const std::vector<at::Tensor>& parameters)
      : parameters_(parameters),
        lr_(at::full({}, kLearningRate,
                     at::TensorOptions(at::kFloat).device(parameters.front().device()))) {
    for (const auto& parameter : parameters) {
      total_ += parameter.numel();
    }
  }

  void zero_grad() override {
    for (auto& parameter : parameters_) {
      parameter.mutable_grad().reset();
    }
  }

  void step() override {
    const at::NoGradGuard no_grad;
    const bool first = momentum_.empty();
    std::vector<at::Tensor> gradients;
    for (const auto& parameter : parameters_) {
      gradients.push_back(parameter.grad());
      if (first) {
        momentum_.push_back(at::empty_like(parameter));
      }
    }
    // Eagerly the host is what is slow.
    const auto pieces = [this](const std::vector<at::Tensor>& tensors) {
      return device::Graph::recording() != nullptr ? cut(tensors, total_) : tensors;
    };
    at::_fused_sgd_(pieces(parameters_), pieces(gradients), pieces(momentum_), kWeightDecay,
                    kMomentum, lr_, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/first);
  }

  void set_lr(double lr) override { lr_.fill_(lr); }

 private:
  std::vector<at::Tensor> parameters_;
  at::Tensor lr_;
  std::int64_t total_ = 0;            // Elements.
  std::vector<at::Tensor> momentum_;  // Empty before the first step.
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const std::vector<at::Tensor>& parameters) {
  if (parameters.front().is_cuda()) {
    return std::make_unique<FusedSgd>(parameters);
  }
  return std::make_unique<LibtorchSgd>(parameters);
}

}  // namespace lockstep::bench
