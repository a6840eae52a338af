// Gradients that are made in their buckets, and tensors that are there by mistake.
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using testing::run_ranks;

constexpr std::int64_t kWidth = 128;
constexpr std::size_t kWeightBytes = kWidth * kWidth * 4;

// With a batch of kWidth, activations, their gradients and those of the weights are all of one
// size.
struct Layers : torch::nn::Module {
  Layers() {
    for (int i = 0; i < 4; ++i) {
      auto weight = at::arange(kWidth * kWidth, at::kFloat).add(i).sin().div(kWidth);
      weights.push_back(register_parameter("w" + std::to_string(i), weight.view({kWidth, kWidth})));
    }
  }
  // Through the layers in this order.
  at::Tensor forward(at::Tensor x, const std::vector<std::size_t>& order) {
    for (const std::size_t i : order) {
      x = at::linear(x, weights[i]).tanh();
    }
    return x;
  }
  std::vector<at::Tensor> weights;
};

at::Tensor batch_of(int rank, int step) {
  return at::arange(kWidth * kWidth, at::kFloat)
      .add(rank * 100 + step)
      .cos()
      .view({kWidth, kWidth});
}

// One network that is wrapped and one that is not, on the same batches.
class Trial {
 public:
  explicit Trial(const Group& world, DistributedDataParallelOptions options = {})
      : world_(world), ddp_(wrapped_, world, options) {}

  void step(int step, const std::vector<std::size_t>& order = {0, 1, 2, 3}) {
    wrapped_->zero_grad();
    add(step, order);
    expect_averages(step);
  }

  void add(int step, const std::vector<std::size_t>& order = {0, 1, 2, 3}) {
    ddp_(batch_of(world_.rank(), step), order).sum().backward();
  }

  // As PyTorch makes them: each rank's, times 1/N, in the order of ranks.
  void expect_averages(int step, const std::vector<std::size_t>& order = {0, 1, 2, 3}) {
    std::vector<at::Tensor> sums(4);
    for (int rank = 0; rank < world_.size(); ++rank) {
      const auto local = local_gradients(rank, step, order);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto part = local[i].mul(1.0 / world_.size());
        sums[i] = sums[i].defined() ? sums[i] + part : part;
      }
    }
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(wrapped_->weights[i].grad().equal(sums[i])) << "step " << step << " w" << i;
    }
  }

  std::vector<at::Tensor> local_gradients(int rank, int step,
                                          const std::vector<std::size_t>& order = {0, 1, 2, 3}) {
    plain_->zero_grad();
    plain_->forward(batch_of(rank, step), order).sum().backward();
    std::vector<at::Tensor> found;
    for (const auto& weight : plain_->weights) {
      found.push_back(weight.grad());
    }
    return found;
  }

  [[nodiscard]] std::size_t copied() const { return ddp_.stats().copied; }
  Layers& wrapped() { return *wrapped_; }
  DistributedDataParallel<Layers>& ddp() { return ddp_; }

 private:
  Group world_;
  std::shared_ptr<Layers> wrapped_ = std::make_shared<Layers>();
  std::shared_ptr<Layers> plain_ = std::make_shared<Layers>();
  DistributedDataParallel<Layers> ddp_;
};

void on_ranks(const std::function<void(Group&)>& body) {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, body, "shm");
  }
}

TEST(BucketSet, GradientsAreNotCopiedOnceTheirOrderIsKnown) {
  on_ranks([](Group& world) {
    Trial trial(world);
    for (int step = 0; step < 5; ++step) {
      trial.step(step);
      // The first gradient of a backward is made before anybody looks.
      EXPECT_EQ(trial.copied(), step == 0 ? 4 * kWeightBytes : kWeightBytes) << step;
    }
  });
}

TEST(BucketSet, NotWhereTheBackendCannotMultiply) {
  run_ranks(
      2,
      [](Group& world) {
        Trial trial(world);
        for (int step = 0; step < 3; ++step) {
          trial.step(step);
          EXPECT_EQ(trial.copied(), 4 * kWeightBytes);
        }
      },
      "gloo");
}

TEST(BucketSet, NotWhereGradientsAreSeparate) {
  on_ranks([](Group& world) {
    Trial trial(world, {.gradient_as_bucket_view = false});
    for (int step = 0; step < 3; ++step) {
      trial.step(step);
      EXPECT_EQ(trial.copied(), 4 * kWeightBytes);
    }
  });
}

// Other tensors then lie in the places of gradients, and live on: the gradients of activations.
TEST(BucketSet, AWrongGuessHarmsNobody) {
  on_ranks([](Group& world) {
    Trial trial(world);
    const std::vector<std::vector<std::size_t>> orders{
        {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {0, 1, 2, 3}, {2, 0, 1, 3, 3, 0}, {0, 1, 2, 3}};
    for (int step = 0; step < 24; ++step) {
      const auto& order = orders[static_cast<std::size_t>(step) % orders.size()];
      trial.wrapped().zero_grad();
      trial.add(step, order);
      trial.expect_averages(step, order);
    }
  });
}

TEST(BucketSet, WhatAHookKeepsStaysTheLocalGradient) {
  on_ranks([](Group& world) {
    Trial trial(world);
    std::vector<at::Tensor> kept;
    bool views = false;
    for (const auto& weight : trial.wrapped().weights) {
      weight.register_hook(
          [&](const at::Tensor& grad) { kept.push_back(views ? grad.view({-1}) : grad); });
    }
    for (int step = 0; step < 8; ++step) {
      kept.clear();
      views = step > 3;
      trial.step(step);
      const auto local = trial.local_gradients(world.rank(), step);
      ASSERT_EQ(kept.size(), 4);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(kept[i].view({kWidth, kWidth}).equal(local[3 - i])) << step << " " << i;
      }
    }
  });
}

TEST(BucketSet, GradientsAccumulate) {
  on_ranks([](Group& world) {
    Trial trial(world);
    for (int step = 0; step < 3; ++step) {
      trial.step(step);
    }
    // PyTorch divides what is there by the number of ranks, and sums it again.
    const auto before = trial.wrapped().weights[0].grad().clone();
    trial.add(3);
    auto expected = at::zeros_like(before);
    for (int rank = 0; rank < world.size(); ++rank) {
      expected += (before + trial.local_gradients(rank, 3)[0]).div(world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[0].grad().equal(expected));
    // Some are added to, some are new.
    trial.wrapped().weights[1].mutable_grad() = at::Tensor();
    trial.wrapped().weights[2].mutable_grad() = at::Tensor();
    const auto second = trial.wrapped().weights[0].grad().clone();
    trial.add(4);
    expected.zero_();
    auto alone = at::zeros_like(before);
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto local = trial.local_gradients(rank, 4);
      expected += (second + local[0]).div(world.size());
      alone += local[1].mul(1.0 / world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[0].grad().equal(expected));
    EXPECT_TRUE(trial.wrapped().weights[1].grad().equal(alone));
    for (int step = 5; step < 8; ++step) {
      trial.step(step);
    }
  });
}

TEST(BucketSet, GradientsOfAGraphAreLeftToIt) {
  on_ranks([](Group& world) {
    Trial trial(world);
    for (int step = 0; step < 3; ++step) {
      trial.step(step);
    }
    trial.wrapped().zero_grad();
    auto sum = trial.ddp()(batch_of(world.rank(), 3), std::vector<std::size_t>{0, 1, 2, 3}).sum();
    sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    trial.expect_averages(3);
    trial.step(4);
  });
}

TEST(BucketSet, AFailedBackwardLeavesNothingBehind) {
  on_ranks([](Group& world) {
    {
      Trial trial(world);
      for (int step = 0; step < 3; ++step) {
        trial.step(step);
      }
      trial.wrapped().weights[1].register_hook(
          [](const at::Tensor&) { throw std::runtime_error("of the user's"); });
      trial.wrapped().zero_grad();
      EXPECT_THROW(trial.add(3), std::runtime_error);
    }
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    Trial again(world.new_group(all));
    for (int step = 0; step < 3; ++step) {
      again.step(step);
    }
  });
}

}  // namespace
}  // namespace lockstep
