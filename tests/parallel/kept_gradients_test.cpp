// Gradients that hooks of the user's keep, while they are made in buckets.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using testing::kWeightBytes;
using testing::kWidth;
using testing::Layers;
using testing::on_ranks;
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
TEST(KeptGradients, WhatAnAccumulatorsHookKeepsStaysTheLocalGradient) {
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

}  // namespace
}  // namespace lockstep
