// What a trainer saves, and from what it goes on.
#include <gmock/gmock.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/generated_images.h"
#include "tests/train/toy_trainer.h"

namespace lockstep::train {
namespace {

using toys::kShort;
using toys::ToyRun;

TEST(TrainerCheckpoint, ASignalEndsItAndTheCheckpointGoesOn) {
  ToyRun whole(kShort);
  (void)whole.trainer->run();
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  int asked = 0;  // 12 steps, 4 batches of validation, 5 steps.
  TrainerOptions options{.keeper = &keeper, .signal = [&] { return ++asked > 21 ? SIGTERM : 0; }};
  ToyRun first(kShort, options);
  const auto outcome = first.trainer->run();
  EXPECT_EQ(outcome.stopped_by, SIGTERM);
  EXPECT_EQ(outcome.position.step_in_epoch, 5);
  EXPECT_TRUE(keeper.finish());
  ToyRun second(kShort);
  second.trainer->resume(load_checkpoint(folder.path + "/checkpoints").checkpoint);
  (void)second.trainer->run();
  auto losses = first.seen.losses;
  losses.insert(losses.end(), second.seen.losses.begin(), second.seen.losses.end());
  EXPECT_EQ(losses, whole.seen.losses);
  ToyRun other({.batch_size = 8, .epochs = 2, .lr = 0.5});
  EXPECT_THAT(
      [&] { other.trainer->resume(load_checkpoint(folder.path + "/checkpoints").checkpoint); },
      ::testing::ThrowsMessage<UsageError>(
          ::testing::HasSubstr("--lr is '0.5' here and not given there")));
  auto with_weights = kShort;
  with_weights.init_weights = "other.pt";
  ToyRun anew(with_weights);
  EXPECT_THAT(
      [&] { anew.trainer->resume(load_checkpoint(folder.path + "/checkpoints").checkpoint); },
      ::testing::ThrowsMessage<UsageError>(
          ::testing::HasSubstr("HINT: add --resume no to start anew with the weights")));
}

// The second epoch's last step turns all weights around.
TEST(TrainerCheckpoint, BestIsTheEpochOfTheHighestAccuracyAndNotTheLast) {
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> of_first_epoch;
  TrainerOptions options{.keeper = &keeper, .each = [&](std::int64_t step) {
                           const at::NoGradGuard no_grad;
                           for (auto& parameter : parameters) {
                             if (step == 12) {
                               of_first_epoch.push_back(parameter.clone());
                             } else if (step == 24) {
                               parameter.neg_();
                             }
                           }
                         }};
  ToyRun run(kShort, options);
  parameters = run.learner.module().parameters();
  const auto outcome = run.trainer->run();
  EXPECT_TRUE(keeper.finish());
  ASSERT_LT(outcome.last.top1, outcome.position.best_top1);
  EXPECT_EQ(outcome.position.best_epoch, 0);
  const auto best = load_checkpoint(folder.path + "/checkpoints/best.pt").checkpoint;
  EXPECT_EQ(best.epoch, 1);
  EXPECT_EQ(load_checkpoint(folder.path + "/checkpoints/last.pt").checkpoint.epoch, 2);
  ASSERT_EQ(best.model.size(), of_first_epoch.size());
  for (std::size_t i = 0; i < of_first_epoch.size(); ++i) {
    EXPECT_TRUE(best.model[i].second.equal(of_first_epoch[i])) << best.model[i].first;
  }
}

// Without the settings and the lr that came later.
TEST(TrainerCheckpoint, GoesOnFromACheckpointOfAnOlderProgram) {
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  int asked = 0;  // 12 steps, and the first batch of the validation.
  TrainerOptions options{.keeper = &keeper, .signal = [&] { return ++asked > 12 ? SIGTERM : 0; }};
  ToyRun first(kShort, options);
  (void)first.trainer->run();
  EXPECT_TRUE(keeper.finish());
  auto saved = load_checkpoint(folder.path + "/checkpoints").checkpoint;
  saved.args = toys::without(saved.args, "--tf32");
  saved.metrics = toys::without(saved.metrics, "lr");
  ToyRun second(kShort);
  second.trainer->resume(saved);
  const double lr = second.learner.lr();
  (void)second.trainer->run();
  EXPECT_EQ(second.seen.losses.size(), 12U);
  EXPECT_EQ(second.seen.rows.at(3), lr) << "of the epoch that was only to be validated";
  auto other = kShort;
  other.tf32 = "off";
  EXPECT_THAT([&] { ToyRun(other).trainer->resume(saved); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("--tf32 is 'off' here and 'conv' there")));
  saved.args = toys::without(saved.args, "the data");
  EXPECT_THAT([&] { ToyRun(kShort).trainer->resume(saved); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("the data is ")));
}

// It drew other numbers for images in memory.
TEST(TrainerCheckpoint, ReprobOfAnOlderLockstepIsRefused) {
  auto source = toys::table();
  const auto images =
      std::make_shared<data::ImageDataset>(data::generated_images({.size = 16, .seed = 1}));
  source.train = images;
  source.validation = images;
  source.input = {1, 28, 28};
  const TrainConfig config{.batch_size = 8, .reprob = 0.5};
  const auto world = init_process_group();
  const auto batches = plan_batches(config, 16, 1);
  Learner learner(config, batches, toys::network(), world);
  Trainer trainer(config, source, batches, learner, world, {});
  checkpoint::Dict args;
  for (const auto& [name, value] : trainer.settings()) {
    if (name != "--reprob draws") {
      args.push_back({name, value});
    }
  }
  Checkpoint saved;
  saved.args = std::move(args);
  EXPECT_THAT([&] { trainer.resume(saved); },
              ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                  ::testing::HasSubstr("--reprob draws is 'by sample' here and missing"),
                  ::testing::HasSubstr("HINT: "))));
  auto without = config;
  without.reprob = 0;
  const Trainer plain(without, source, batches, learner, world, {});
  EXPECT_EQ(plain.settings().back().first, "the data");
}

}  // namespace
}  // namespace lockstep::train
