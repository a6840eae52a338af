// Gradients that are made in their buckets, and tensors that are there by mistake.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/lent_memory.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using testing::run_ranks;

constexpr std::int64_t kWidth = 128;
constexpr std::size_t kHalve = 4;
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
  // Through the layers in this order; kHalve is none of them.
  at::Tensor forward(at::Tensor x, const std::vector<std::size_t>& order) {
    for (const std::size_t i : order) {
      x = i == kHalve ? x * 0.5 : at::linear(x, weights[i]).tanh();
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
  explicit Trial(
      const Group& world, const DistributedDataParallelOptions& options = {},
      const std::function<void(Layers&)>& before = [](Layers&) {})
      : world_(world), ddp_((before(*wrapped_), wrapped_), world, options) {}

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
    run_ranks(
        ranks,
        [&](Group& world) {
          at::set_num_threads(1);
          body(world);
        },
        "shm");
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
    const std::vector<std::vector<std::size_t>> orders{{0, kHalve, 1, kHalve, 2, 3},
                                                       {0, 1, 2, 3},
                                                       {3, 2, 1, 0},
                                                       {1, 0, 3, 2},
                                                       {0, 1, 2, 3},
                                                       {2, 0, 1, 3, 3, 0}};
    int moves = 0;
    for (int step = 0; step < 48; ++step) {
      const auto& order = orders[static_cast<std::size_t>(step) % orders.size()];
      trial.wrapped().zero_grad();
      trial.add(step, order);
      trial.expect_averages(step, order);
      moves += trial.copied() > 4 * kWeightBytes ? 1 : 0;
    }
    EXPECT_GE(moves, 2);
  });
}

// A hook that begins to keep them, when gradients are made in place already: as they are, when
// autograd takes a copy, and as another tensor with the same memory, when it does not.
TEST(BucketSet, WhatAHookKeepsStaysTheLocalGradient) {
  for (const bool views : {false, true}) {
    on_ranks([views](Group& world) {
      Trial trial(world);
      std::vector<at::Tensor> kept;
      bool keep = false;
      for (const auto& weight : trial.wrapped().weights) {
        weight.register_hook([&](const at::Tensor& grad) {
          if (keep) {
            kept.push_back(views ? grad.view({-1}) : grad);
          }
        });
      }
      int moves = 0;
      for (int step = 0; step < 16; ++step) {
        kept.clear();
        keep = step % 8 == 7;
        trial.step(step);
        moves += trial.copied() > 4 * kWeightBytes ? 1 : 0;
        const auto local = trial.local_gradients(world.rank(), step);
        ASSERT_EQ(kept.size(), keep ? 4 : 0);
        for (std::size_t i = 0; i < kept.size(); ++i) {
          EXPECT_TRUE(kept[i].view({kWidth, kWidth}).equal(local[3 - i])) << step << " " << i;
        }
      }
      EXPECT_EQ(moves, 2);
    });
  }
}

// As the engine handed it over, in a hook that was there before the module was wrapped.
TEST(BucketSet, WhatAnAccumulatorsHookKeepsStaysTheLocalGradient) {
  on_ranks([](Group& world) {
    at::Tensor kept;
    decltype(torch::autograd::impl::grad_accumulator(kept)) accumulator;  // A tensor's is weak.
    Trial trial(world, {}, [&](Layers& net) {
      accumulator = torch::autograd::impl::grad_accumulator(net.weights[1]);
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [&](const auto& outputs, const auto& inputs) {
            kept = inputs.front();
            return outputs;
          }));
    });
    for (int step = 0; step < 8; ++step) {
      kept = at::Tensor();
      trial.step(step);
      EXPECT_TRUE(kept.equal(trial.local_gradients(world.rank(), step)[1])) << step;
    }
  });
}

TEST(BucketSet, GradientsOfTheStepBeforeCanBeReadInHooks) {
  on_ranks([](Group& world) {
    Trial trial(world);
    at::Tensor last;
    int equal = 0;
    trial.wrapped().weights[0].register_hook(
        [&](const at::Tensor& grad) { equal += last.defined() && last.equal(grad) ? 1 : 0; });
    for (int step = 0; step < 4; ++step) {
      last = trial.wrapped().weights[0].grad();
      trial.step(step);
    }
    EXPECT_EQ(equal, 0);
  });
}

// Each rank leaves out another layer than in the step before, and another than its peer. What is
// left out is put as zero before the others are made.
TEST(BucketSet, PlacesOfUnusedGradientsStayZero) {
  for (const double cap : {25.0, 0.06}) {  // All in one bucket, or each in its own.
    on_ranks([cap](Group& world) {
      Trial trial(world, {.bucket_cap_mb = cap, .find_unused_parameters = true});
      const auto order_of = [](int rank, int step) {
        const auto used = static_cast<std::size_t>((rank + step) % 2 + 1);
        return std::vector<std::size_t>{0, used, 3};
      };
      for (int step = 0; step < 12; ++step) {
        trial.wrapped().zero_grad();
        trial.add(step, order_of(world.rank(), step));
        std::vector<at::Tensor> sums(4);
        for (int rank = 0; rank < world.size(); ++rank) {
          const auto local = trial.local_gradients(rank, step, order_of(rank, step));
          for (std::size_t i = 0; i < 4; ++i) {
            const auto part =
                local[i].defined() ? local[i].mul(1.0 / world.size()) : at::zeros({kWidth, kWidth});
            sums[i] = sums[i].defined() ? sums[i] + part : part;
          }
        }
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(trial.wrapped().weights[i].grad().equal(sums[i])) << step << " w" << i;
        }
      }
    });
  }
}

TEST(BucketSet, GradientsOfAStaticGraphAreMadeInPlaceToo) {
  on_ranks([](Group& world) {
    Trial trial(world, {.static_graph = true});
    const std::vector<std::size_t> order{0, 1, 2, 3, 1};  // One of them twice.
    for (int step = 0; step < 5; ++step) {
      trial.wrapped().zero_grad();
      trial.add(step, order);
      trial.expect_averages(step, order);
    }
    EXPECT_LE(trial.copied(), 2 * kWeightBytes);
  });
}

TEST(BucketSet, UnderNoSyncNothingIsLent) {
  on_ranks([](Group& world) {
    Trial trial(world);
    for (int step = 0; step < 3; ++step) {
      trial.step(step);
    }
    trial.wrapped().zero_grad();
    {
      const auto guard = trial.ddp().no_sync();
      trial.add(3);
    }
    const auto local = trial.local_gradients(world.rank(), 3);
    EXPECT_TRUE(trial.wrapped().weights[2].grad().equal(local[2]));
    trial.add(4);
    auto expected = at::zeros({kWidth, kWidth});
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto first = trial.local_gradients(rank, 3)[2];
      const auto both = first + trial.local_gradients(rank, 4)[2];
      expected += both.mul(1.0 / world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[2].grad().equal(expected));
  });
}

TEST(BucketSet, TwoModulesInOneBackward) {
  on_ranks([](Group& world) {
    Trial first(world);
    Trial second(world);
    for (int step = 0; step < 5; ++step) {
      first.wrapped().zero_grad();
      second.wrapped().zero_grad();
      const std::vector<std::size_t> order{0, 1, 2, 3};
      const auto sum = first.ddp()(batch_of(world.rank(), step), order).sum() +
                       second.ddp()(batch_of(world.rank(), step), order).sum();
      sum.backward();
      first.expect_averages(step);
      second.expect_averages(step);
    }
    EXPECT_LT(std::min(first.copied(), second.copied()), 2 * kWeightBytes);
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
      for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(parallel::is_lent(at::empty({kWidth, kWidth}).const_data_ptr()));
      }
    }
    EXPECT_EQ(parallel::lender(), nullptr);
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
