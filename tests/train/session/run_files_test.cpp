#include "lockstep/train/session/run_files.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/session/launched_job.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

class RunFilesTest : public ::testing::Test {
 protected:
  RunFiles open(const std::string& resume = "auto") {
    config_.output = folder_.path;
    config_.resume = resume;
    return RunFiles(config_, {"data", "net"}, restarted_,
                    [&](const std::string& text) { warnings_.push_back(text); });
  }
  // As a launcher that restarts its ranks tells them.
  void restart() {
    restarted_ = true;
    ::setenv("TORCHELASTIC_MAX_RESTARTS", "3", 1);
  }
  void TearDown() override { ::unsetenv("TORCHELASTIC_MAX_RESTARTS"); }
  void save(RunFiles& files, bool best = false) {
    files.open_logs(std::nullopt);
    Checkpoint checkpoint{.model = {{"weight", at::ones({2})}}};
    set_job(checkpoint, restarts_allowed() ? this_job() : "");
    files.keeper().save(checkpoint, {.best = best});
    files.keeper().finish();
  }

  toys::Folder folder_;
  TrainConfig config_;
  std::vector<std::string> warnings_;
  bool restarted_ = false;
};

TEST_F(RunFilesTest, AnUnfinishedRunIsResumedAndAFinishedOneFollowed) {
  {
    auto files = open();
    EXPECT_EQ(files.checkpoint(), "");
    save(files);
    files.finish(false);
  }
  {
    auto files = open();
    EXPECT_EQ(files.checkpoint(), folder_.path + "/data-net/checkpoints");
    files.finish(true);
  }
  auto files = open();
  EXPECT_EQ(files.folder(), folder_.path + "/data-net-2");
  EXPECT_EQ(files.checkpoint(), "");
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
}

TEST_F(RunFilesTest, ARunWithoutItsCheckpointsStartsOverWithAWarning) {
  {
    auto files = open();
    save(files);
  }
  std::filesystem::remove(folder_.path + "/data-net/checkpoints/last.pt");
  EXPECT_EQ(open().folder(), folder_.path + "/data-net");
  EXPECT_THAT(warnings_, ::testing::ElementsAre(::testing::HasSubstr("starts from the beginning")));
}

TEST_F(RunFilesTest, APlanIsWhatARunWouldChooseAndWritesNothing) {
  config_.output = folder_.path + "/new";
  EXPECT_EQ(plan_files(config_, "data", "net").folder, folder_.path + "/new/data-net");
  EXPECT_FALSE(std::filesystem::exists(config_.output));
  {
    auto files = open();
    save(files);
    files.finish(false);
  }
  auto plan = plan_files(config_, "data", "net");
  EXPECT_EQ(plan.folder, folder_.path + "/data-net");
  EXPECT_EQ(plan.checkpoint, folder_.path + "/data-net/checkpoints");
  open().finish(true);
  plan = plan_files(config_, "data", "net");
  EXPECT_EQ(plan.folder, folder_.path + "/data-net-2");
  EXPECT_EQ(plan.checkpoint, "");
  EXPECT_EQ(plan.why_not, "");
  config_.output = "/proc/runs";
  EXPECT_NE(plan_files(config_, "data", "net").why_not, "");
}

TEST_F(RunFilesTest, AnOutputThatIsAFileIsRefused) {
  const auto file = folder_.path + "/file";
  std::ofstream(file) << "text";
  for (const auto& output : {file, file + "/", file + "/below/it"}) {
    config_.output = output;
    EXPECT_THAT([&] { RunFiles(config_, {"data", "net"}, false, [](const std::string&) {}); },
                ::testing::ThrowsMessage<UsageError>(::testing::AllOf(
                    ::testing::HasSubstr("'" + file + "' is no folder"),
                    ::testing::HasSubstr("HINT: --output " + folder_.path + "/runs"))))
        << output;
  }
}

TEST_F(RunFilesTest, ResumeNamesARunOrACheckpoint) {
  EXPECT_THROW(open("last"), UsageError);
  EXPECT_THROW(open("/nowhere.pt"), UsageError);
  {
    auto files = open();
    save(files, true);
    files.finish(true);
  }
  const auto run = folder_.path + "/data-net";
  EXPECT_EQ(open("best").checkpoint(), run + "/checkpoints/best.pt");
  EXPECT_EQ(open("last").checkpoint(), run + "/checkpoints/");
  EXPECT_EQ(open(run).checkpoint(), run + "/checkpoints");
  EXPECT_EQ(open(run + "/checkpoints/last.pt").folder(), run);
  EXPECT_EQ(open("no").folder(), folder_.path + "/data-net-2");
}

TEST_F(RunFilesTest, WhatIsNotThereNamesTheNearest) {
  EXPECT_THAT([&] { open("lats"); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("HINT: --resume last")));
  std::ofstream(folder_.path + "/mine.pt") << "a checkpoint";
  EXPECT_THAT([&] { open(folder_.path + "/mien.pt"); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("HINT: --resume " + folder_.path + "/mine.pt")));
  EXPECT_THAT(
      [&] { open("/nowhere/at/all"); },
      ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("HINT: leave --resume out")));
}

TEST_F(RunFilesTest, InitialWeightsThatAreNotThereLeaveNoFolder) {
  config_.init_weights = folder_.path + "/mien.pt";
  std::ofstream(folder_.path + "/mine.pt") << "a checkpoint";
  EXPECT_THAT([&] { open(); }, ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr(
                                   "HINT: --init-weights " + folder_.path + "/mine.pt")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path + "/data-net"));
  config_.init_weights = "";
  {
    auto files = open();
    save(files);
  }
  // The run has weights of its own now.
  config_.init_weights = folder_.path + "/mien.pt";
  EXPECT_EQ(open().checkpoint(), folder_.path + "/data-net/checkpoints");
  EXPECT_THROW(open("no"), UsageError);
  open().finish(true);
  EXPECT_THROW(open(), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_.path + "/data-net-2"));
}

TEST_F(RunFilesTest, WhatIsNoCheckpointLeavesNoFolder) {
  {
    auto files = open();
    save(files);
  }
  const auto table = folder_.path + "/t.csv";
  std::ofstream(table) << "1,2\n";
  for (const auto& no_checkpoint : {table, folder_.path}) {
    EXPECT_THAT([&] { open(no_checkpoint); }, ::testing::ThrowsMessage<UsageError>(
                                                  ::testing::HasSubstr("HINT: give a checkpoint")))
        << no_checkpoint;
  }
  config_.init_weights = table;
  EXPECT_THROW(open("no"), UsageError);
  EXPECT_FALSE(std::filesystem::exists(folder_.path + "/data-net-2"));
  config_.init_weights = "";
  EXPECT_EQ(open().folder(), folder_.path + "/data-net");
}

TEST_F(RunFilesTest, ARestartedJobGoesOnWithItsOwnRun) {
  ::setenv("TORCHELASTIC_MAX_RESTARTS", "3", 1);
  const auto pt = folder_.path + "/last.pt";
  CheckpointKeeper(folder_.path, {.strict = true}).save({.model = {{"weight", at::ones({2})}}}, {});
  {
    auto files = open(pt);
    EXPECT_EQ(files.checkpoint(), pt);
  }
  restart();
  EXPECT_EQ(open(pt).checkpoint(), pt) << "it has none of its own";
  {
    auto files = open(pt);
    EXPECT_EQ(files.folder(), folder_.path + "/data-net");
    save(files);
  }
  EXPECT_EQ(open(pt).checkpoint(), folder_.path + "/data-net/checkpoints");
  EXPECT_EQ(open("no").checkpoint(), folder_.path + "/data-net/checkpoints");
  EXPECT_FALSE(open(pt).is_done());
  open(pt).finish(true);
  EXPECT_TRUE(open(pt).is_done());
  EXPECT_EQ(open().folder(), folder_.path + "/data-net");
}

TEST_F(RunFilesTest, ARestartedJobWithoutARunLeavesThoseOfOthersAlone) {
  {
    auto files = open();
    save(files, true);
  }
  restart();
  EXPECT_EQ(open("no").folder(), folder_.path + "/data-net-2");
}

TEST_F(RunFilesTest, ARestartedJobTakesNoOtherJobsCheckpointOfItsRun) {
  {
    auto files = open();
    save(files, true);
  }
  restart();
  const auto run = folder_.path + "/data-net";
  {
    auto files = open("best");
  }
  EXPECT_EQ(open("best").checkpoint(), run + "/checkpoints/best.pt");
  // It tells which job it is of, whatever the dates say.
  std::filesystem::last_write_time(run + "/checkpoints/last.pt",
                                   std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(open("best").checkpoint(), run + "/checkpoints/best.pt");
  {
    auto files = open("best");
    save(files);
  }
  std::filesystem::last_write_time(
      run + "/checkpoints/last.pt",
      std::filesystem::last_write_time(run + "/job") - std::chrono::seconds(1));
  EXPECT_EQ(open("best").checkpoint(), run + "/checkpoints");
}

// The rank died before the job's first attempt took the mark away.
TEST_F(RunFilesTest, AMarkFromBeforeTheJobIsNotItsEnd) {
  {
    auto files = open();
    save(files, true);
    files.finish(true);
  }
  restart();
  {
    auto files = open("best");
  }
  EXPECT_FALSE(open("best").is_done());
}

TEST_F(RunFilesTest, AFinishedRunThatGoesOnIsNotFinished) {
  const auto mark = folder_.path + "/data-net/finished";
  config_.epochs = 3;
  {
    auto files = open();
    save(files, true);
    files.finish(true);
  }
  open("best").open_logs(Position{.epoch = 3});
  EXPECT_TRUE(std::filesystem::exists(mark));
  open("best").open_logs(Position{.epoch = 2, .step_in_epoch = 1});
  EXPECT_FALSE(std::filesystem::exists(mark));
  EXPECT_EQ(open().folder(), folder_.path + "/data-net");
}

TEST_F(RunFilesTest, ASummaryOfOthersIsRefusedBeforeTheFirstStep) {
  {
    auto files = open();
    save(files);
    files.log()->on_epoch({});
    files.finish(true);
  }
  const auto summary = folder_.path + "/data-net/summary.csv";
  const auto rows = folder_.read("data-net/summary.csv");
  std::ofstream(summary) << "mine," << rows;
  EXPECT_THAT([&] { open("last").open_logs(Position{}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("HINT: move it away")));
  EXPECT_EQ(folder_.read("data-net/summary.csv"), "mine," + rows);
  EXPECT_TRUE(std::filesystem::exists(folder_.path + "/data-net/finished"));
  std::filesystem::remove(summary);
  EXPECT_NO_THROW(open("last").open_logs(Position{}));
}

TEST_F(RunFilesTest, AFolderThatIsRenamedMeanwhileIsAWarning) {
  auto files = open();
  save(files);
  std::filesystem::rename(folder_.path + "/data-net", folder_.path + "/mine");
  EXPECT_TRUE(files.finish(true));
  EXPECT_TRUE(std::filesystem::exists(folder_.path + "/mine/finished"));
  EXPECT_THAT(warnings_, ::testing::ElementsAre(::testing::AllOf(
                             ::testing::HasSubstr("data-net' is no longer there under its name"),
                             ::testing::HasSubstr("/mine'"))));
}

TEST_F(RunFilesTest, AFileThatCannotBeWrittenIsAWarningOrTheEndOfAStrictRun) {
  config_.output = folder_.path;
  for (const bool strict : {false, true}) {
    config_.strict = strict;
    RunFiles files(config_, {strict ? "strict" : "data", "net"}, false,
                   [&](const std::string& text) { warnings_.push_back(text); });
    std::filesystem::create_directories(files.folder() + "/config.toml/in_the_way");
    if (strict) {
      EXPECT_THAT([&] { files.open_logs(std::nullopt); },
                  ::testing::ThrowsMessage<IoError>(
                      ::testing::HasSubstr("--strict: the run's files cannot be written")));
    } else {
      files.open_logs(std::nullopt);
    }
  }
  EXPECT_THAT(warnings_, ::testing::ElementsAre(::testing::HasSubstr("training goes on without")));
}

TEST_F(RunFilesTest, ARootThatCannotBeMadeIsAWarning) {
  config_.output = "/proc/nothing";
  RunFiles files(config_, {"data", "net"}, false,
                 [&](const std::string& text) { warnings_.push_back(text); });
  files.open_logs(std::nullopt);
  EXPECT_EQ(files.log(), nullptr);
  EXPECT_THAT(warnings_,
              ::testing::ElementsAre(::testing::HasSubstr("training goes on without files")));
}

}  // namespace
}  // namespace lockstep::train
