#include "lockstep/train/loop/recipe.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

at::Tensor weight() {
  auto param = at::ones({2}).set_requires_grad(true);
  param.mutable_grad() = at::full({2}, 3.0);
  return param;
}

double after_two_steps(const TrainConfig& config) {
  const auto param = weight();
  const auto optimizer = make_optimizer(config, 0.1, {param});
  optimizer->step();
  optimizer->step();
  return param[0].item<double>();
}

TEST(Recipe, EachOptimizerMovesWeightsItsOwnWay) {
  const TrainConfig plain{.weight_decay = 0};
  std::set<double> weights;
  for (const char* name : {"sgd", "nesterov", "adam", "adamw"}) {
    auto config = plain;
    config.opt = name;
    config.weight_decay = 0.1;
    weights.insert(after_two_steps(config));
  }
  EXPECT_EQ(weights.size(), 4U);
  EXPECT_NE(after_two_steps(plain), after_two_steps({.momentum = 0, .weight_decay = 0}));
}

std::vector<double> rates(const TrainConfig& config, int steps) {
  const auto optimizer = make_optimizer(config, 1.0, {weight()});
  const auto schedule = make_scheduler(config, *optimizer, 2);
  std::vector<double> rates;
  for (int i = 0; i < steps; ++i) {
    rates.push_back(optimizer->lr());
    schedule->step();
  }
  return rates;
}

TEST(Recipe, SchedulesAreInStepsOfEpochs) {
  EXPECT_EQ(rates({.epochs = 4, .sched = "constant"}, 4), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(rates({.epochs = 4, .sched = "step", .decay_epochs = 1, .decay_rate = 0.5}, 6),
            (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(
      rates({.epochs = 4, .sched = "multistep", .decay_milestones = {1}, .decay_rate = 0.5}, 4),
      (std::vector<double>{1, 1, 0.5, 0.5}));
  const auto cosine = rates({.epochs = 2, .min_lr = 0.1}, 5);
  EXPECT_EQ(cosine[0], 1);
  EXPECT_NEAR(cosine[2], 0.55, 1e-12);
  EXPECT_NEAR(cosine[4], 0.1, 1e-12);
}

TEST(Recipe, LinearFallsFromTheWarmupsEndToTheRunsEnd) {
  const auto near = [](double rate) { return ::testing::DoubleNear(rate, 1e-12); };
  EXPECT_THAT(rates({.epochs = 2, .sched = "linear"}, 5),
              ::testing::ElementsAre(near(1), near(0.75), near(0.5), near(0.25), near(0)));
  EXPECT_THAT(
      rates({.epochs = 2, .sched = "linear", .warmup_epochs = 1, .warmup_lr = 0.5, .min_lr = 0.2},
            5),
      ::testing::ElementsAre(near(0.5), near(0.75), near(1), near(0.6), near(0.2)));
  EXPECT_THAT([] { rates({.epochs = 2, .sched = "linear", .min_lr = 2}, 1); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("--min-lr is 2")));
}

TEST(Recipe, AnUnknownScheduleIsNotConstant) {
  EXPECT_THROW(rates({.epochs = 4, .sched = "cosin"}, 1), UsageError);
}

TEST(Recipe, WarmupComesFirst) {
  const auto found =
      rates({.epochs = 4, .sched = "constant", .warmup_epochs = 1, .warmup_lr = 0.5}, 4);
  EXPECT_NEAR(found[0], 0.5, 1e-12);
  EXPECT_NEAR(found[1], 0.75, 1e-12);
  EXPECT_NEAR(found[2], 1, 1e-12);
}

TEST(Recipe, PrecisionIsALevelAndAType) {
  EXPECT_EQ(precision_of({}).level, amp::OptLevel::kO0);
  EXPECT_EQ(precision_of({.amp = "bf16"}).level, amp::OptLevel::kO1);
  EXPECT_EQ(precision_of({.amp = "bf16"}).type, at::kBFloat16);
  EXPECT_EQ(precision_of({.amp = "fp16"}).type, at::kHalf);
  EXPECT_EQ(precision_of({.amp = "O2"}).level, amp::OptLevel::kO2);
}

TEST(Recipe, ClippingIsByNormOrByValue) {
  const auto clipped = [](const TrainConfig& config) {
    const auto param = weight();
    clip_gradients(config, {param});
    return param.grad()[0].item<double>();
  };
  EXPECT_EQ(clipped({}), 3);
  EXPECT_EQ(clipped({.clip_grad = 1, .clip_mode = "value"}), 1);
  EXPECT_NEAR(clipped({.clip_grad = 1}), 1 / std::sqrt(2.0), 1e-5);
}

}  // namespace
}  // namespace lockstep::train
