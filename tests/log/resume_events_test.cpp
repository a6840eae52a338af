#include "lockstep/log/resume_events.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/fd.h"
#include "lockstep/log/read_events.h"
#include "lockstep/log/summary_writer.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResumeEvents : public ::testing::Test {
 protected:
  // An event file with a scalar for each step; its path.
  std::string write_steps(std::int64_t first, std::int64_t last) {
    SummaryWriter writer(folder());
    for (auto step = first; step <= last; ++step) {
      writer.add_scalar("Loss/train", static_cast<double>(step), step);
    }
    return writer.path();
  }
  static std::vector<std::int64_t> steps_of(const std::string& path) {
    const auto file = read_events(path);
    EXPECT_FALSE(file.is_cut);
    std::vector<std::int64_t> steps;
    for (const auto& event : file.events) {
      if (!event.summary.empty()) {
        steps.push_back(event.step);
      }
    }
    return steps;
  }
  void drop_after(std::int64_t step) {
    drop_events_after(folder(), step,
                      [this](const std::string& warning) { warnings_.push_back(warning); });
  }
  [[nodiscard]] std::string folder() const { return folder_.file("run"); }

  std::vector<std::string> warnings_;

 private:
  test::TemporaryFolder folder_;
};

TEST_F(ResumeEvents, StepsAfterTheCheckpointAreGoneFromAllFiles) {
  const auto first = write_steps(0, 4);
  const auto second = write_steps(3, 9);
  drop_after(4);
  EXPECT_THAT(steps_of(first), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(steps_of(second), ElementsAre(3, 4));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ResumeEvents, ARunThatWasResumedHoldsEachStepOnce) {
  const auto first = write_steps(0, 9);
  drop_after(5);
  const auto second = write_steps(6, 12);
  drop_after(7);
  const auto third = write_steps(8, 9);
  EXPECT_THAT(steps_of(first), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(steps_of(second), ElementsAre(6, 7));
  EXPECT_THAT(steps_of(third), ElementsAre(8, 9));
}

TEST_F(ResumeEvents, WhatIsMadeAgainAtTheLastStepIsGone) {
  std::string path;
  {
    SummaryWriter writer(folder());
    path = writer.path();
    for (const std::int64_t step : {1, 2}) {
      writer.add_scalar("Loss/train", 0, step);
      writer.add_scalar("Loss/val", 0, step);
    }
  }
  drop_events_after(folder(), LastEvents{2, {"Loss/val"}});
  EXPECT_THAT(steps_of(path), ElementsAre(1, 1, 2));
  drop_events_after(folder(), LastEvents{1, {"Loss/val"}});
  EXPECT_THAT(steps_of(path), ElementsAre(1));
}

TEST_F(ResumeEvents, WhatAKilledWriterLeftInTheMiddleIsCutOff) {
  const auto path = write_steps(0, 3);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  drop_after(10);
  EXPECT_THAT(steps_of(path), ElementsAre(0, 1, 2));
}

TEST_F(ResumeEvents, AFileWithNothingToDropKeepsItsBytes) {
  const auto path = write_steps(0, 3);
  const auto before = read_file(path);
  drop_after(3);
  EXPECT_EQ(read_file(path), before);
}

TEST_F(ResumeEvents, ADamagedFileStaysAndIsNamed) {
  const auto path = write_steps(0, 3);
  auto bytes = read_file(path);
  bytes[60] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  const auto other = write_steps(0, 3);
  drop_after(1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(path)));
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_THAT(steps_of(other), ElementsAre(0, 1));
}

TEST_F(ResumeEvents, OtherFilesAndLinksAreNotTouched) {
  const auto path = write_steps(0, 3);
  const auto linked = folder() + "/../linked";
  std::filesystem::copy_file(path, linked);
  std::filesystem::create_symlink(linked, folder() + "/events.out.tfevents.link");
  std::ofstream(folder() + "/metrics.jsonl") << "x";
  drop_after(1);
  EXPECT_THAT(steps_of(linked), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(read_file(folder() + "/metrics.jsonl"), "x");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ResumeEvents, NoFolderIsNoError) {
  drop_after(1);
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace lockstep::log
