// Runs where there is a GPU: steps that cannot be recorded run eagerly, as if it had not been
// tried.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "lockstep/device/graphed_step.h"
#include "lockstep/train/amp/grad_scaler.h"
#include "lockstep/train/amp/gradient_check.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::amp {
namespace {

using ::testing::HasSubstr;

TEST(RecordedAmpOnAGpu, AFailedRecordingLeavesTheScalerAsItWas) {
  const auto trained = [](bool record) {
    auto param = at::full({8}, 1.0, at::kCUDA).requires_grad_();
    optim::SGD sgd({param}, {.lr = 0.1, .fused = false});
    GradScaler scaler;
    GraphedStep step(
        [&](const at::Tensor& x) {
          sgd.zero_grad();
          auto loss = (param * x).sum();
          scaler.scale(loss).backward();
          scaler.unscale_(sgd);
          scaler.step(sgd);
          scaler.update();
          return loss;
        },
        {.warmup = 1, .record = record});
    for (int i = 0; i < 4; ++i) {
      step(at::ones({8}, at::kCUDA));
    }
    EXPECT_THAT(step.why_eager(), HasSubstr(record ? "without fused kernels" : "switched off"));
    return param.detach().cpu();
  };
  EXPECT_TRUE(trained(true).equal(trained(false)));
}

TEST(RecordedAmpOnAGpu, AStepThatMakesStateIsNotRecorded) {
  const auto trained = [](bool record) {
    auto param = at::full({8}, 1.0, at::kCUDA).requires_grad_();
    optim::SGD sgd({param}, {.lr = 0.1, .momentum = 0.9});
    GraphedStep step(
        [&](const at::Tensor& x) {
          sgd.zero_grad();
          auto loss = (param * x).sum();
          loss.backward();
          sgd.step();
          return loss;
        },
        {.warmup = 0, .record = record});
    for (int i = 0; i < 4; ++i) {
      step(at::ones({8}, at::kCUDA));
    }
    EXPECT_THAT(step.why_eager(), HasSubstr(record ? "the first step" : "switched off"));
    return param.detach().cpu();
  };
  EXPECT_TRUE(trained(true).equal(trained(false)));
}

TEST(RecordedAmpOnAGpu, AGradientCheckSeesEveryStep) {
  torch::nn::Linear net(4, 2);
  net->to(at::kCUDA);
  GradientCheck check(*net, {.policy = NonFinitePolicy::kSkip});
  GraphedStep step(
      [&](const at::Tensor& x) {
        net->zero_grad();
        auto loss = net(x).sum();
        loss.backward();
        return loss;
      },
      {.warmup = 1});
  for (int i = 0; i < 5; ++i) {
    const bool bad = i == 3;
    step(at::full({3, 4}, bad ? std::nan("") : 1.0, at::kCUDA));
    EXPECT_EQ(check.check(i), !bad) << i;
    EXPECT_EQ(check.first().has_value(), bad) << i;
  }
  EXPECT_THAT(step.why_eager(), HasSubstr("GradientCheck"));
}

}  // namespace
}  // namespace lockstep::amp
