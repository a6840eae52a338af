// Runs where there is a GPU: recorded steps, in which tensors are cut, beside eager ones.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include "lockstep/device/graphed_step.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::optim {
namespace {

template <class Kind, class Options>
std::vector<at::Tensor> trained(const Options& options, bool graphed) {
  torch::manual_seed(3);
  std::vector<at::Tensor> params;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{300, 200}, {7}, {64, 128}}) {
    params.push_back(at::randn(shape, at::kCUDA).requires_grad_());
  }
  Kind optimizer(params, options);
  GraphedStep step(
      [&](const at::Tensor& target) {
        optimizer.zero_grad();
        auto loss =
            (params[0] - target).square().sum() + params[1].sin().sum() + params[2].square().sum();
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.record = graphed});
  for (int i = 0; i < 10; ++i) {
    if (i == 6) {
      optimizer.set_lr(0.001);  // A recorded step follows.
    }
    step(at::randn({300, 200}, at::kCUDA));
  }
  EXPECT_EQ(step.is_recorded(), graphed) << step.why_eager();
  return params;
}

template <class Kind, class Options>
void expect_the_same_bits(const Options& options) {
  const auto eager = trained<Kind>(options, false);
  const auto graphed = trained<Kind>(options, true);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(eager[i].equal(graphed[i])) << i;
  }
}

TEST(RecordedOptimizerOnAGpu, ARecordedStepHasTheBitsOfAnEagerOne) {
  expect_the_same_bits<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.01});
  expect_the_same_bits<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true});
  expect_the_same_bits<AdamW>(AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
}

TEST(RecordedOptimizerOnAGpu, AStateLoadedAfterRecordingIsUsed) {
  auto param = at::randn({8}, at::kCUDA).requires_grad_();
  SGD sgd({param}, {.lr = 1, .momentum = 0.5});
  GraphedStep step(
      [&](const at::Tensor& factor) {
        sgd.zero_grad();
        auto loss = (param * factor).sum();
        loss.backward();
        sgd.step();
        return loss;
      },
      {.warmup = 1});
  const auto zeros = at::zeros({8}, at::kCUDA);
  for (int i = 0; i < 4; ++i) {
    step(zeros);
  }
  ASSERT_TRUE(step.is_recorded());
  const auto before = param.detach().clone();
  auto state = sgd.state_dict();
  state.state[0]["momentum_buffer"] = at::full({8}, 4.0);
  sgd.load_state_dict(state);
  step(zeros);
  EXPECT_TRUE(param.allclose(before - 2));
}

TEST(RecordedOptimizerOnAGpu, ParametersOfSeveralTypesAndAStepWithoutFusedKernels) {
  std::vector<at::Tensor> params{at::randn({8}, at::kCUDA).requires_grad_(),
                                 at::randn({8}, at::kCUDA).to(at::kBFloat16).requires_grad_()};
  AdamW fused(params, {.lr = 0.1});
  AdamW plain(params, {.lr = 0.1, .fused = false});
  const auto make = [&](Optimizer& optimizer) {
    return [&](const at::Tensor& x) {
      optimizer.zero_grad();
      auto loss = (params[0] * x + params[1]).square().sum();
      loss.backward();
      optimizer.step();
      return loss;
    };
  };
  GraphedStep recorded(make(fused), {.warmup = 1});
  GraphedStep eager(make(plain), {.warmup = 1});
  double first = 0;
  double last = 0;
  for (int i = 0; i < 6; ++i) {
    last = recorded(at::ones({8}, at::kCUDA)).item<double>();
    first = i == 0 ? last : first;
    eager(at::ones({8}, at::kCUDA));
  }
  EXPECT_TRUE(recorded.is_recorded()) << recorded.why_eager();
  EXPECT_LT(last, first);
  EXPECT_THAT(eager.why_eager(), ::testing::HasSubstr("fused = true"));
}

}  // namespace
}  // namespace lockstep::optim
