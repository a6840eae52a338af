#include "lockstep/train/loop/learner.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/base/error.h"
#include "lockstep/train/loop/copied.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

class LearnerTest : public ::testing::Test {
 protected:
  Learner make(const TrainConfig& config) {
    config_ = config;
    return Learner(config_, BatchPlan{8, config.grad_accum, 8 * config.grad_accum, 10, 8},
                   toys::network(), init_process_group());
  }
  static void steps(Learner& learner, int count, std::int64_t first = 0) {
    at::manual_seed(9);
    const auto source = toys::table();
    Tally tally(at::kCPU);
    for (std::int64_t i = first; i < first + count; ++i) {
      std::vector<std::int64_t> rows(8);
      std::iota(rows.begin(), rows.end(), i * 8);
      learner.backward(*source.train->get_batch(rows, {}), true, tally);
      learner.update();
    }
  }
  static at::Tensor weight(const Learner& learner) { return learner.module().parameters()[0]; }

  TrainConfig config_;
};

TEST_F(LearnerTest, GoesOnToTheSameBitsFromItsCheckpoint) {
  for (const TrainConfig& config :
       {TrainConfig{}, TrainConfig{.opt = "adamw", .warmup_epochs = 1}, TrainConfig{.amp = "fp16"},
        TrainConfig{.amp = "O2"}, TrainConfig{.model_ema = true, .model_ema_decay = 0.5},
        TrainConfig{.amp = "O2", .model_ema = true, .model_ema_decay = 0.999}}) {
    auto whole = make(config);
    steps(whole, 6);
    auto first = make(config);
    steps(first, 3);
    Checkpoint checkpoint;
    first.save_to(checkpoint);
    const auto value = lockstep::to_value(checkpoint, copied);
    auto second = make(config);
    second.load(from_value("test", value));
    steps(second, 3, 3);
    EXPECT_TRUE(weight(second).equal(weight(whole))) << config.amp << config.opt;
    EXPECT_EQ(second.lr(), whole.lr());
    const Learner::Averages of_second(second);
    const Learner::Averages of_whole(whole);
    EXPECT_TRUE(weight(second).equal(weight(whole)));
    Checkpoint of_end;
    second.save_to(of_end);
    Checkpoint of_whole_end;
    whole.save_to(of_whole_end);
    if (config.model_ema) {
      EXPECT_TRUE(of_end.model_ema[0].second.equal(of_whole_end.model_ema[0].second));
      EXPECT_EQ(of_end.model_ema[0].second.scalar_type(), at::kFloat);
    }
  }
}

TEST_F(LearnerTest, MasterWeightsThatAreNoTensorsAreRefused) {
  auto learner = make({.amp = "O2"});
  Checkpoint checkpoint;
  learner.save_to(checkpoint);
  checkpoint.others = {{"master_weights", checkpoint::Dict{{"0.weight", "text"}}}};
  EXPECT_THAT([&] { learner.load(checkpoint); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("have no '0.weight'")));
}

TEST_F(LearnerTest, AveragesAreThereForAScope) {
  auto learner = make({.model_ema = true, .model_ema_decay = 0.5});
  steps(learner, 2);
  const auto before = weight(learner).clone();
  {
    const Learner::Averages averages(learner);
    EXPECT_FALSE(weight(learner).equal(before));
  }
  EXPECT_TRUE(weight(learner).equal(before));
}

TEST_F(LearnerTest, FlagsChangeWhatIsLearned) {
  const auto learned = [&](const TrainConfig& config) {
    auto learner = make(config);
    steps(learner, 3);
    return weight(learner).sum().item<double>();
  };
  const double plain = learned({});
  EXPECT_EQ(learned({}), plain);
  EXPECT_NE(learned({.smoothing = 0.2}), plain);
  EXPECT_NE(learned({.clip_grad = 0.01}), plain);
  EXPECT_NE(learned({.weight_decay = 0.5}), plain);
  EXPECT_NE(learned({.momentum = 0}), plain);
  EXPECT_NE(learned({.amp = "bf16"}), plain);
  EXPECT_NE(learned({.amp = "fp16"}), plain);
  EXPECT_NE(learned({.amp = "fp16"}), learned({.amp = "bf16"}));
}

TEST_F(LearnerTest, Fp16LearnsWithALossThatIsScaled) {
  const auto scaler_of = [&](const char* amp) {
    auto learner = make({.lr = 0.5, .amp = amp});
    const auto before = weight(learner).clone();
    steps(learner, 3);
    EXPECT_FALSE(weight(learner).equal(before)) << amp << " left all steps out";
    Checkpoint checkpoint;
    learner.save_to(checkpoint);
    return checkpoint.scaler;
  };
  EXPECT_NE(scaler_of("fp16").find("scale"), nullptr);
  EXPECT_TRUE(scaler_of("bf16").is_none()) << "has float32's range";
}

TEST_F(LearnerTest, ChannelsLastIsTheWeightsFormat) {
  config_ = {.channels_last = true};
  torch::nn::Sequential net(torch::nn::Conv2d(3, 4, 3));
  const Learner learner(config_, BatchPlan{1, 1, 1, 1, 1},
                        std::make_shared<models::Network>(net.ptr()), init_process_group());
  EXPECT_TRUE(weight(learner).is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_F(LearnerTest, WeightsOfOtherShapesAreLeftOut) {
  auto learner = make({});
  const auto missing = learner.load_weights(
      {.model = {{"module.0.weight", at::ones({3, 4})}, {"module.0.bias", at::ones({9})}}});
  EXPECT_THAT(missing, ::testing::ElementsAre("0.bias"));
  EXPECT_EQ(weight(learner).sum().item<float>(), 12);
  EXPECT_THROW(learner.load_weights({.model = {{"other", at::ones({3, 4})}}}), UsageError);
  EXPECT_THROW(learner.load({.model = {{"0.weight", at::ones({3, 4})}}}), UsageError);
}

TEST_F(LearnerTest, WeightsOfCompiledAndWrappedModelsFit) {
  for (const std::string prefix :
       {"", "module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."}) {
    auto learner = make({});
    const auto missing =
        learner.load_weights({.model = {{prefix + "0.weight", at::full({3, 4}, 2.F)},
                                        {prefix + "0.bias", at::full({3}, 2.F)}}});
    EXPECT_THAT(missing, ::testing::IsEmpty()) << prefix;
    EXPECT_EQ(weight(learner).sum().item<float>(), 24) << prefix;
  }
}

}  // namespace
}  // namespace lockstep::train
