// A module whose gradients are large enough to be made in their buckets, beside one that is not
// wrapped.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/comm/ranks.h"

namespace lockstep::testing {

inline constexpr std::int64_t kWidth = 128;
inline constexpr std::size_t kWeightBytes = kWidth * kWidth * 4;

// The layers that a batch goes through; kHalve is none of them.
using Order = std::vector<std::size_t>;
inline constexpr std::size_t kHalve = 4;
inline const Order kAllLayers{0, 1, 2, 3};

// With a batch of kWidth, activations, their gradients and those of the weights are all of one
// size.
struct Layers : torch::nn::Module {
  Layers() {
    for (int i = 0; i < 4; ++i) {
      auto weight = at::arange(kWidth * kWidth, at::kFloat).add(i).sin().div(kWidth);
      weights.push_back(register_parameter("w" + std::to_string(i), weight.view({kWidth, kWidth})));
    }
  }
  at::Tensor forward(at::Tensor x, const Order& order) {
    for (const std::size_t i : order) {
      x = i == kHalve ? x * 0.5 : at::linear(x, weights[i]).tanh();
    }
    return x;
  }
  std::vector<at::Tensor> weights;
};

inline at::Tensor batch_of(int rank, int step) {
  return at::arange(kWidth * kWidth, at::kFloat)
      .add(rank * 100 + step)
      .cos()
      .view({kWidth, kWidth});
}

// One network that is wrapped and one that is not, on the same batches.
class Trial {
 public:
  explicit Trial(
      const Group& world, const DistributedDataParallelOptions& options = {},
      const std::function<void(Layers&)>& before = [](Layers&) {})
      : world_(world), ddp_((before(*wrapped_), wrapped_), world, options) {}

  void steps(int first, int end) {
    for (int i = first; i < end; ++i) {
      step(i);
    }
  }

  void step(int step) {
    wrapped_->zero_grad();
    add(step);
    expect_averages(step);
  }

  void add(int step, const Order& order = kAllLayers) {
    ddp_(batch_of(world_.rank(), step), order).sum().backward();
  }

  void expect_averages(int step, const Order& order = kAllLayers) {
    expect_averages(step, [&](int) { return order; });
  }

  // As PyTorch makes them: each rank's, times 1/N, in the order of ranks; nothing counts as zero.
  std::vector<at::Tensor> averages(int step, const std::function<Order(int rank)>& order_of) {
    std::vector<at::Tensor> sums(4);
    for (int rank = 0; rank < world_.size(); ++rank) {
      const auto local = local_gradients(rank, step, order_of(rank));
      for (std::size_t i = 0; i < 4; ++i) {
        const auto part =
            local[i].defined() ? local[i].mul(1.0 / world_.size()) : at::zeros({kWidth, kWidth});
        sums[i] = sums[i].defined() ? sums[i] + part : part;
      }
    }
    return sums;
  }

  void expect_averages(int step, const std::function<Order(int rank)>& order_of) {
    const auto sums = averages(step, order_of);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(wrapped_->weights[i].grad().equal(sums[i])) << "step " << step << " w" << i;
    }
  }

  std::vector<at::Tensor> local_gradients(int rank, int step, const Order& order = kAllLayers) {
    plain_->zero_grad();
    plain_->forward(batch_of(rank, step), order).sum().backward();
    std::vector<at::Tensor> found;
    for (const auto& weight : plain_->weights) {
      found.push_back(weight.grad());
    }
    return found;
  }

  [[nodiscard]] std::size_t copied() const { return ddp_.stats().copied; }
  [[nodiscard]] std::size_t moved() const { return ddp_.stats().moved; }
  Layers& wrapped() { return *wrapped_; }
  Layers& plain() { return *plain_; }
  DistributedDataParallel<Layers>& ddp() { return ddp_; }

 private:
  Group world_;
  std::shared_ptr<Layers> wrapped_ = std::make_shared<Layers>();
  std::shared_ptr<Layers> plain_ = std::make_shared<Layers>();
  DistributedDataParallel<Layers> ddp_;
};

inline void on_ranks(const std::function<void(Group&)>& body) {
  for (const int ranks : {2, 3}) {
    run_ranks(
        ranks,
        [&](Group& world) {
          at::set_num_threads(1);
          body(world);
        },
        "shm");
  }
}

}  // namespace lockstep::testing
