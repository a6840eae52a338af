#include "lockstep/train/loop/run_files.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

class RunFilesTest : public testing::Test {
 protected:
  RunFiles open(const std::string& resume = "auto") {
    config_.output = folder_.path;
    config_.resume = resume;
    return RunFiles(config_, {"data", "net"}, false,
                    [&](const std::string& text) { warnings_.push_back(text); });
  }
  void save(RunFiles& files, bool best = false) {
    files.open_logs(std::nullopt);
    files.keeper().save({.model = {{"weight", at::ones({2})}}}, {.best = best});
    files.keeper().finish();
  }

  toys::Folder folder_;
  TrainConfig config_;
  std::vector<std::string> warnings_;
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
  EXPECT_THAT(warnings_, testing::IsEmpty());
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

TEST_F(RunFilesTest, ARootThatCannotBeMadeIsAWarning) {
  config_.output = "/proc/nothing";
  RunFiles files(config_, {"data", "net"}, false,
                 [&](const std::string& text) { warnings_.push_back(text); });
  files.open_logs(std::nullopt);
  EXPECT_EQ(files.log(), nullptr);
  EXPECT_THAT(warnings_,
              testing::ElementsAre(testing::HasSubstr("training goes on without files")));
}

}  // namespace
}  // namespace lockstep::train
