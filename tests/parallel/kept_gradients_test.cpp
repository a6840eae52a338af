// Gradients that the user keeps, from hooks or from the steps before, while they are made in
// buckets.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <random>

#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using testing::kWeightBytes;
using testing::kWidth;
using testing::Layers;
using testing::on_ranks;
using testing::Order;
using testing::run_ranks;
using testing::Trial;

// A hook that begins to keep them, when gradients are made in place already: as they are, when
// autograd takes a copy, and as another tensor with the same memory, when it does not.
TEST(KeptGradients, WhatAHookKeepsStaysTheLocalGradient) {
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
      for (int step = 0; step < 16; ++step) {
        kept.clear();
        keep = step % 8 == 7;
        trial.step(step);
        const auto local = trial.local_gradients(world.rank(), step);
        ASSERT_EQ(kept.size(), keep ? 4 : 0);
        for (std::size_t i = 0; i < kept.size(); ++i) {
          EXPECT_TRUE(kept[i].view({kWidth, kWidth}).equal(local[3 - i])) << step << " " << i;
        }
        if (step > 7 && !keep) {  // Nothing is placed in the 4 steps after one that was kept.
          EXPECT_EQ(trial.copied(), (step < 12 ? 4 : 1) * kWeightBytes) << step;
        }
      }
      EXPECT_EQ(trial.moved(), 2);
    });
  }
}

// As the engine handed it over or as `.grad`, in a hook that was there before the module was
// wrapped.
void keep_in_accumulators_hook(bool grad) {
  on_ranks([grad](Group& world) {
    at::Tensor kept;
    decltype(torch::autograd::impl::grad_accumulator(kept)) accumulator;  // A tensor's is weak.
    Trial trial(world, {}, [&](Layers& net) {
      accumulator = torch::autograd::impl::grad_accumulator(net.weights[1]);
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [&, grad](const auto& outputs, const auto& inputs) {
            kept = grad ? net.weights[1].grad() : inputs.front();
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

TEST(KeptGradients, WhatAnAccumulatorsHookKeepsStaysTheLocalGradient) {
  keep_in_accumulators_hook(/*grad=*/false);
  keep_in_accumulators_hook(/*grad=*/true);
}

TEST(KeptGradients, GradientsOfTheStepBeforeCanBeReadInHooks) {
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

// How a caller can hold a gradient: by what it returns.
using Keep = std::function<c10::IValue(const at::Tensor& grad)>;
const std::vector<Keep> kWaysToKeep{
    [](const at::Tensor& grad) { return grad; },
    [](const at::Tensor& grad) { return grad.view({-1}); },
    [](const at::Tensor& grad) { return grad.narrow(0, 1, 2); },
    [](const at::Tensor& grad) { return grad.detach(); },
    [](const at::Tensor& grad) { return grad.storage(); },
};

at::Tensor contents_of(const c10::IValue& kept) {
  return kept.isTensor() ? kept.toTensor() : at::empty({0}).set_(kept.toStorage());
}

TEST(KeptGradients, OfEarlierStepsStayWhatTheyAre) {
  for (const auto& keep : kWaysToKeep) {
    on_ranks([&](Group& world) {
      Trial trial(world);
      std::vector<std::pair<c10::IValue, at::Tensor>> kept;  // With what they were.
      for (int step = 0; step < 8; ++step) {
        trial.step(step);
        for (const std::size_t i : {1, 3}) {
          auto held = keep(trial.wrapped().weights[i].grad());
          auto copy = contents_of(held).clone();
          kept.emplace_back(std::move(held), std::move(copy));
        }
        if (kept.size() > 4) {  // Two steps old.
          kept.erase(kept.begin(), kept.begin() + 2);
        }
        for (const auto& [held, copy] : kept) {
          EXPECT_TRUE(contents_of(held).equal(copy)) << step;
        }
        // None came back but that of the gradient that is there before anybody looks.
        EXPECT_EQ(trial.copied(), step == 0 ? 4 * kWeightBytes : kWeightBytes) << step;
      }
    });
  }
}

TEST(KeptGradients, StayOnARankThatAloneKeepsThem) {
  on_ranks([](Group& world) {
    Trial trial(world);
    at::Tensor kept;
    at::Tensor copy;
    for (int step = 0; step < 8; ++step) {
      trial.step(step);
      if (world.rank() == 1) {
        EXPECT_TRUE(!kept.defined() || kept.equal(copy)) << step;
        kept = trial.wrapped().weights[2].grad();
        copy = kept.clone();
      }
    }
  });
}

// A gradient that is kept keeps the memory of one bucket, not one for each step.
TEST(KeptGradients, OfManyStepsDoNotTakeABucketEach) {
  on_ranks([](Group& world) {
    Trial trial(world);
    std::vector<at::Tensor> kept;
    std::vector<at::Tensor> copies;
    for (int step = 0; step < 12; ++step) {
      trial.step(step);
      kept.push_back(trial.wrapped().weights[1].grad());
      copies.push_back(kept.back().clone());
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(kept[i].equal(copies[i])) << i;
      bytes += kept[i].storage().nbytes();
    }
    EXPECT_LE(bytes, 24 * kWeightBytes);  // A bucket for each step would be 48.
  });
}

TEST(KeptGradients, StayUnderGradientsThatAreAccumulated) {
  on_ranks([](Group& world) {
    for (const auto& options : {DistributedDataParallelOptions{},
                                DistributedDataParallelOptions{.find_unused_parameters = true},
                                DistributedDataParallelOptions{.static_graph = true}}) {
      Trial trial(world, options);
      for (int step = 0; step < 6; ++step) {
        trial.step(2 * step);
        const auto kept = trial.wrapped().weights[1].grad();
        const auto copy = kept.clone();
        trial.wrapped().zero_grad();
        {
          const auto guard = trial.ddp().no_sync();
          trial.add(2 * step);
        }
        trial.add(2 * step + 1);
        EXPECT_TRUE(kept.equal(copy)) << step;
      }
    }
  });
}

TEST(KeptGradients, StayWhereNothingIsPlaced) {
  run_ranks(
      2,
      [](Group& world) {
        Trial trial(world);
        trial.step(0);
        trial.step(1);
        const auto kept = trial.wrapped().weights[1].grad();
        const auto copy = kept.clone();
        trial.step(2);
        EXPECT_TRUE(kept.equal(copy));
      },
      "gloo");
}

// Over shared memory too, which the group has mapped.
TEST(KeptGradients, OutliveModuleAndGroup) {
  on_ranks([](Group& world) {
    std::vector<at::Tensor> kept;
    std::vector<at::Tensor> copies;
    {
      Trial trial(world);
      trial.steps(0, 3);
      for (const auto& weight : trial.wrapped().weights) {
        kept.push_back(weight.grad());
        copies.push_back(weight.grad().clone());
      }
    }
    world.destroy();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(kept[i].equal(copies[i])) << i;
      EXPECT_TRUE(kept[i].mul_(2).equal(copies[i] * 2)) << i;
    }
  });
}

// Steps of all kinds in any order, and whatever was kept of them on each rank.
TEST(KeptGradients, StayWhateverElseAProgramDoes) {
  run_ranks(
      2,  // Halves are exact, whoever divides when.
      [](Group& world) {
        at::set_num_threads(1);
        Trial trial(world, {.bucket_cap_mb = 0.1});
        std::mt19937 shared(7);
        std::mt19937 own(static_cast<unsigned>(world.rank()));
        std::vector<std::pair<c10::IValue, at::Tensor>> kept;
        const std::vector<Order> orders{
            {0, 1, 2, 3}, {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 1, 3, 3, 0}};
        for (int step = 0; step < 120; ++step) {
          const bool in_place = own() % 4 == 0;
          if (in_place) {
            kept.clear();  // They would rightly change.
          }
          trial.wrapped().zero_grad(/*set_to_none=*/!in_place);
          const auto& order = orders[step % 40 < 25 ? 0 : shared() % orders.size()];
          trial.add(step, order);
          trial.expect_averages(step, order);
          for (const auto& [held, copy] : kept) {
            EXPECT_TRUE(contents_of(held).equal(copy)) << step;
          }
          if (own() % 3 == 0) {
            auto held =
                kWaysToKeep[own() % kWaysToKeep.size()](trial.wrapped().weights[own() % 4].grad());
            auto copy = contents_of(held).clone();
            kept.emplace_back(std::move(held), std::move(copy));
          } else if (!kept.empty() && own() % 2 == 0) {
            kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(own() % kept.size()));
          }
        }
        EXPECT_GT(trial.moved(), 0);
      },
      "shm");
}

// In Python too: zero_grad() zeroes the tensor that the caller has, and backward adds to it.
TEST(KeptGradients, ThatAreZeroedInPlaceAreTheNewOnes) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    const auto kept = trial.wrapped().weights[1].grad();
    const auto view = kept.view({-1});
    for (int step = 3; step < 6; ++step) {
      trial.wrapped().zero_grad(/*set_to_none=*/false);
      trial.add(step);
      EXPECT_TRUE(kept.equal(trial.wrapped().weights[1].grad()));
      EXPECT_TRUE(view.equal(kept.view({-1})));
      EXPECT_EQ(trial.copied(), 0);
    }
  });
}

}  // namespace
}  // namespace lockstep
