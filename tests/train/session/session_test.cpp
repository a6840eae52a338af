#include "lockstep/train/session/session.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/toys.h"

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
  ::testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(train(config, init_process_group(), {{"own", make_own}}), 0);
  } catch (...) {
    (void)::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

TEST(Train, TrainsANetworkOfOnesOwnOnATable) {
  const toys::Folder folder;
  const auto config = table_in(folder);
  EXPECT_THAT(printed_by(config), ::testing::HasSubstr("own with 6 parameters"));
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
  EXPECT_THAT(printed_by(config), ::testing::HasSubstr("of 20 samples"));
  config.seed = 1;
  EXPECT_THAT([&] { printed_by(config); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("--seed is '1' here and '0' there")));
}

// Train, validation and test: 12, 6 and 8 images of two classes.
TrainConfig photos_in(const toys::Folder& folder) {
  for (const auto& [part, count] :
       {std::pair("train", 6), std::pair("valid", 3), std::pair("test", 4)}) {
    for (const char* name : {"cat", "dog"}) {
      const auto path = folder.path + "/photos/" + part + "/" + name;
      std::filesystem::create_directories(path);
      for (int i = 0; i < count; ++i) {
        std::ofstream(path + "/" + std::to_string(i) + ".ppm", std::ios::binary)
            << "P6 8 8 255\n"
            << std::string(192, static_cast<char>(i));
      }
    }
  }
  return {.data = folder.path + "/photos",
          .model = "mlp",
          .input_size = 8,
          .workers = 0,
          .batch_size = 4,
          .epochs = 2,
          .output = folder.path + "/runs"};
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Train, OfThreePartsTheTestIsToldOnceAtTheEnd) {
  const toys::Folder folder;
  auto config = photos_in(folder);
  const auto text = printed_by(config);
  EXPECT_THAT(text,
              ::testing::HasSubstr("12 training, 6 validation and 8 test images in 2 classes"));
  EXPECT_EQ(occurrences(text, "test: accuracy "), 1U);
  EXPECT_THAT(text, ::testing::HasSubstr("\n  test       Acc@1 "));
  const auto run = folder.path + "/runs/photos-mlp";
  const auto metrics = folder.read("runs/photos-mlp/metrics.jsonl");
  EXPECT_EQ(occurrences(metrics, "\"test_samples\": 8}"), 1U);
  // A training that is finished is started again: nothing is trained, and the test is there once.
  config.resume = run;
  config.json = true;
  const auto again = printed_by(config);
  EXPECT_THAT(again, ::testing::HasSubstr("\"test_samples\": 8, \"bad_files\": 0, "));
  EXPECT_EQ(folder.read("runs/photos-mlp/metrics.jsonl"), metrics);
  config.eval_only = true;
  const auto scores = printed_by(config);
  EXPECT_THAT(scores, ::testing::HasSubstr("\"samples\": 6, \"test_loss\": "));
  EXPECT_THAT(scores, ::testing::HasSubstr("\"test_samples\": 8}"));
}

TEST(Train, BadFilesAreListedAtTheEnd) {
  const toys::Folder folder;
  auto config = photos_in(folder);
  std::ofstream(folder.path + "/photos/train/cat/1.ppm") << "no image";
  const auto text = printed_by(config);
  EXPECT_THAT(text, ::testing::HasSubstr("\n  data       1 file cannot be read; other samples "));
  EXPECT_EQ(occurrences(text, "/train/cat/1.ppm'"), 1U);
  config.max_bad = 0;
  config.resume = "no";
  EXPECT_THAT([&] { printed_by(config); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("/train/cat/1.ppm'")));
}

TEST(Train, ScoresAreOfTheFilesThatCanBeRead) {
  const toys::Folder folder;
  auto config = photos_in(folder);
  (void)printed_by(config);
  std::ofstream(folder.path + "/photos/valid/dog/1.ppm") << "no image";
  std::ofstream(folder.path + "/photos/test/cat/0.ppm") << "no image";
  config.eval_only = true;
  config.json = true;
  const auto scores = printed_by(config);
  EXPECT_THAT(scores, ::testing::HasSubstr("\"samples\": 5, "));
  EXPECT_THAT(scores, ::testing::HasSubstr("\"test_samples\": 7"));
  config.json = false;
  EXPECT_THAT(printed_by(config),
              ::testing::HasSubstr("scores of the validation part are without 1 file\n"
                                   "scores of the test part are without 1 file"));
}

TEST(Train, TheCacheIsToldAndChangesNoNumber) {
  const toys::Folder folder;
  auto config = photos_in(folder);
  (void)printed_by(config);
  config.cache = "disk";
  config.cache_dir = folder.path + "/cache";
  config.output = folder.path + "/cached";
  std::filesystem::create_directory(config.cache_dir);
  EXPECT_THAT(printed_by(config), ::testing::HasSubstr("image cache '" + config.cache_dir + "/"));
  EXPECT_EQ(folder.read("cached/photos-mlp/summary.csv"),
            folder.read("runs/photos-mlp/summary.csv"));
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
  EXPECT_THAT(text, ::testing::StartsWith("{\"state\": \"finished\", \"exit_code\": 0"));
  EXPECT_THAT(text, ::testing::HasSubstr("\"epochs\": 2, \"steps\": 36, \"best_top1\": "));
  EXPECT_THAT(text, ::testing::HasSubstr("\"restarts\": 1"));
  EXPECT_THAT(text, ::testing::HasSubstr("points-own/checkpoints/last.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/runs/points-own-2"));
}

TEST(Train, ARestartThatFindsAllDoneScoresTheTestPartAgain) {
  const toys::Folder folder;
  auto config = photos_in(folder);
  config.json = true;
  ::setenv("TORCHELASTIC_MAX_RESTARTS", "2", 1);
  const auto test_scores = [&] {
    const auto text = printed_by(config);
    const auto begin = text.find("\"test_loss\"");
    const auto end = text.find("\"bad_files\": 0");
    EXPECT_TRUE(begin < end && end != std::string::npos) << text;
    return begin < end && end != std::string::npos ? text.substr(begin, end - begin) : text;
  };
  const auto first = test_scores();
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  EXPECT_EQ(test_scores(), first);
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  ::unsetenv("TORCHELASTIC_MAX_RESTARTS");
}

}  // namespace
}  // namespace lockstep::train
