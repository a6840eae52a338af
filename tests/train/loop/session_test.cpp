#include "lockstep/train/loop/session.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

torch::nn::Sequential make_own(const models::ModelOptions& options) {
  return torch::nn::Sequential(torch::nn::Linear(options.input_size.at(0), *options.num_classes));
}

// 180 rows to train with and 20 to validate with, chosen by the seed.
TrainConfig table_in(const toys::Folder& folder) {
  std::ofstream file(folder.path + "/points.csv");
  for (int i = 0; i < 200; ++i) {
    file << i % 13 << "," << i % 7 << "," << (i % 13 > 6 ? 1 : 0) << "\n";
  }
  return {.data = folder.path + "/points.csv",
          .model = "own",
          .batch_size = 10,
          .output = folder.path + "/runs"};
}

// What it prints on stdout; its exit code must be 0.
std::string printed_by(const TrainConfig& config) {
  testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(train(config, init_process_group(), {{"own", make_own}}), 0);
  } catch (...) {
    (void)testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

TEST(Train, TrainsANetworkOfOnesOwnOnATable) {
  const toys::Folder folder;
  const auto config = table_in(folder);
  EXPECT_THAT(printed_by(config), testing::HasSubstr("own with 6 parameters"));
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/runs/points-own/finished"));
  EXPECT_THROW(train({.data = config.data, .model = "owl", .batch_size = 10}, init_process_group()),
               UsageError);
}

TEST(Train, EvalOnlyOfInitWeightsRefusesSamplesThatWereLearned) {
  const toys::Folder folder;
  auto config = table_in(folder);
  config.epochs = 1;
  (void)printed_by(config);
  config.eval_only = true;
  config.init_weights = folder.path + "/runs/points-own/checkpoints/last.pt";
  EXPECT_THAT(printed_by(config), testing::HasSubstr("of 20 samples"));
  config.seed = 1;
  EXPECT_THAT(
      [&] { printed_by(config); },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr("--seed is '1' here and '0' there")));
}

TEST(Train, ARestartThatFindsAllDonePrintsTheSummaryForPrograms) {
  const toys::Folder folder;
  auto config = table_in(folder);
  config.epochs = 2;
  config.json = true;
  ::setenv("TORCHELASTIC_MAX_RESTARTS", "2", 1);
  (void)printed_by(config);
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  const auto text = printed_by(config);
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  ::unsetenv("TORCHELASTIC_MAX_RESTARTS");
  EXPECT_THAT(text, testing::StartsWith("{\"state\": \"finished\", \"exit_code\": 0"));
  EXPECT_THAT(text, testing::HasSubstr("\"epochs\": 2, \"steps\": 36, \"best_top1\": "));
  EXPECT_THAT(text, testing::HasSubstr("\"restarts\": 1"));
  EXPECT_THAT(text, testing::HasSubstr("points-own/checkpoints/last.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/runs/points-own-2"));
}

}  // namespace
}  // namespace lockstep::train
