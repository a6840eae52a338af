#include "lockstep/log/summary_writer.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/log/read_events.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::log {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

class SummaryWriterTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string folder() const { return folder_.file("runs/a"); }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(SummaryWriterTest, WritesEventsInOrder) {
  SummaryWriter writer(folder());
  writer.add_scalar("Loss/train", 0.5, 1);
  writer.add_text("note", "hello", 2);
  writer.add_histogram("weights", std::vector<float>{1, 2, 3}, 3);
  const auto events = read_events(writer.path()).events;
  ASSERT_EQ(events.size(), 4);
  EXPECT_EQ(events[0].file_version, kFileVersion);
  EXPECT_EQ(std::get<float>(events[1].summary.at(0).value), 0.5F);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[2].summary.at(0).tag, "note/text_summary");
  EXPECT_EQ(std::get<Histogram>(events[3].summary.at(0).value).sum, 6);
  EXPECT_LE(events[0].wall_time, events[3].wall_time);
}

TEST_F(SummaryWriterTest, NamesFilesAsTensorBoardDoes) {
  const SummaryWriter first(folder());
  const SummaryWriter second(folder(), {.filename_suffix = ".val"});
  const auto name = std::filesystem::path(second.path()).filename().string();
  EXPECT_THAT(name,
              MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..*\\.[0-9]+\\.[0-9]\\.val"));
  EXPECT_THAT(name, HasSubstr("." + host_name() + "." + std::to_string(::getpid()) + "."));
  EXPECT_NE(first.path(), second.path());
}

TEST_F(SummaryWriterTest, TwoWritersOfOneSecondHaveTwoFiles) {
  const SummaryWriter first(folder());
  const SummaryWriter second(folder());
  EXPECT_NE(first.path(), second.path());
}

// As containers with the same host name and process number that share a folder.
TEST_F(SummaryWriterTest, WritersThatStartTogetherHaveFilesOfTheirOwn) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int file = 0; file < 50; ++file) {
        try {
          const SummaryWriter writer(folder());
        } catch (const IoError&) {
          ++failed;
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failed, 0);
  const auto files = std::filesystem::directory_iterator(folder());
  EXPECT_EQ(std::distance(begin(files), end(files)), 200);
}

TEST_F(SummaryWriterTest, AFolderThatCannotBeMadeIsAnError) {
  EXPECT_THAT([] { SummaryWriter("/proc/nowhere"); },
              ThrowsMessage<IoError>(HasSubstr("making the folder '/proc/nowhere'")));
}

TEST_F(SummaryWriterTest, AVanishedFolderIsOneWarning) {
  std::vector<std::string> warnings;
  SummaryWriter writer(
      folder(), {.on_warning = [&](const std::string& warning) { warnings.push_back(warning); }});
  std::filesystem::remove_all(folder());
  for (int step = 0; step < 3; ++step) {
    writer.add_scalar("Loss/train", 1, step);
  }
  writer.close();
  EXPECT_THAT(warnings, SizeIs(1));
}

TEST_F(SummaryWriterTest, AWarningMayCloseIt) {
  std::unique_ptr<SummaryWriter> writer;
  writer = std::make_unique<SummaryWriter>(
      folder(), SummaryWriterOptions{.on_warning = [&](const std::string&) { writer->close(); }});
  std::filesystem::remove_all(folder());
  writer->add_scalar("Loss/train", 1, 0);
  EXPECT_THROW(writer->add_scalar("Loss/train", 1, 1), UsageError);
}

TEST_F(SummaryWriterTest, ThreadsMayAddWhileItIsClosed) {
  for (int round = 0; round < 50; ++round) {
    SummaryWriter writer(folder(), {.filename_suffix = std::to_string(round)});
    std::atomic<int> adding = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        try {
          for (int step = 0;; ++step) {
            writer.add_scalar("Loss/train", 1, step);
            adding += step == 0 ? 1 : 0;
          }
        } catch (const UsageError&) {  // It is closed.
        }
      });
    }
    while (adding < 3) {
      std::this_thread::yield();
    }
    writer.close();
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_FALSE(read_events(writer.path()).is_cut);
  }
}

TEST_F(SummaryWriterTest, NothingIsAddedAfterClose) {
  SummaryWriter writer(folder());
  writer.close();
  writer.close();
  writer.flush();
  EXPECT_THAT([&] { writer.add_scalar("a", 1, 1); },
              ThrowsMessage<UsageError>(HasSubstr("is closed; make a new one")));
}

}  // namespace
}  // namespace lockstep::log
