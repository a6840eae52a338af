#include "lockstep/train/run/run_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderOptions options(const std::string& name = "data-model") const {
    return {.root = folder_.file("runs"), .name = name};
  }
  std::string runs(const std::string& name) const { return folder_.file("runs/" + name); }
  // As of a run that has come to its first step.
  void make(const std::string& name) const {
    std::filesystem::create_directories(runs(name));
    std::ofstream(runs(name) + "/config.toml") << "";
  }
  static RunFolder begin(const RunFolderOptions& options) {
    auto run = RunFolder::open(options);
    std::ofstream(run.file("config.toml")) << "";
    return run;
  }

  static mode_t mode_of(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  test::TemporaryFolder folder_;
};

TEST_F(RunFolderTest, TheFirstRunHasNoNumber) {
  const auto run = RunFolder::open(options());
  EXPECT_EQ(run.path(), runs("data-model"));
  EXPECT_FALSE(run.is_resumed());
  EXPECT_FALSE(run.is_finished());
  EXPECT_EQ(run.why_not(), "");
}

TEST_F(RunFolderTest, OnlyTheUserMayReadWhatItMakes) {
  auto run = RunFolder::open(options());
  EXPECT_EQ(mode_of(folder_.file("runs")), 0700U);
  EXPECT_EQ(mode_of(run.path()), 0700U);
  EXPECT_EQ(mode_of(run.make_subfolder("checkpoints")), 0700U);
  run.mark_finished();
  EXPECT_EQ(mode_of(run.file("finished")), 0600U);
}

TEST_F(RunFolderTest, AnUnfinishedRunIsResumed) {
  {
    const auto first = begin(options());
  }
  const auto second = RunFolder::open(options());
  EXPECT_EQ(second.path(), runs("data-model"));
  EXPECT_TRUE(second.is_resumed());
}

TEST_F(RunFolderTest, AFinishedRunIsFollowedByTheNextNumber) {
  for (const char* expected : {"data-model", "data-model-2", "data-model-3"}) {
    auto run = RunFolder::open(options());
    EXPECT_EQ(run.path(), runs(expected));
    EXPECT_FALSE(run.is_resumed());
    run.mark_finished();
    EXPECT_TRUE(run.is_finished());
  }
}

TEST_F(RunFolderTest, TheNewestRunDecides) {
  make("data-model");
  make("data-model-10");
  make("data-model-9");
  EXPECT_EQ(RunFolder::open(options()).path(), runs("data-model-10"));
}

TEST_F(RunFolderTest, OtherNamesDoNotCount) {
  for (const char* other : {"data-model2", "data-model-x", "data-model-02", "data-model-1",
                            "data-model-", "data-mod", "other-data-model"}) {
    make(other);
  }
  EXPECT_EQ(RunFolder::open(options()).path(), runs("data-model"));
}

TEST_F(RunFolderTest, WithoutResumeANewOneFollows) {
  {
    const auto first = begin(options());
  }
  auto fresh = options();
  fresh.resume = false;
  const auto second = RunFolder::open(fresh);
  EXPECT_EQ(second.path(), runs("data-model-2"));
  EXPECT_FALSE(second.is_resumed());
}

// A refused start, or one that was killed, must not hide the run before it.
TEST_F(RunFolderTest, WhatARefusedStartLeftIsNoRun) {
  make("data-model");
  std::filesystem::create_directories(runs("data-model-2/log/attempt_0"));
  std::filesystem::create_directories(runs("data-model-3"));
  EXPECT_EQ(RunFolder::open(options()).path(), runs("data-model"));
  RunFolder::open(options()).mark_finished();
  const auto next = RunFolder::open(options());
  EXPECT_EQ(next.path(), runs("data-model-2"));
  EXPECT_FALSE(next.is_resumed());
  EXPECT_TRUE(next.can_write());
}

// Two starts may not see each other's locks, on two hosts with one file system.
TEST_F(RunFolderTest, WithoutResumeNoFolderOfAnotherStartIsTaken) {
  std::filesystem::create_directories(runs("data-model"));
  auto fresh = options();
  fresh.resume = false;
  EXPECT_EQ(RunFolder::open(fresh).path(), runs("data-model-2"));
}

TEST_F(RunFolderTest, AStartThatIsUnderWayKeepsItsFolder) {
  const auto first = RunFolder::open(options());
  EXPECT_THROW(RunFolder::open(options()), UsageError);
  auto fresh = options();
  fresh.resume = false;
  EXPECT_EQ(RunFolder::open(fresh).path(), runs("data-model-2"));
}

TEST_F(RunFolderTest, ASecondProcessIsRefusedByTheNumberOfTheFirst) {
  const auto first = RunFolder::open(options());
  EXPECT_THAT([&] { RunFolder::open(options()); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("the run '" + first.path() + "' is in use by process " +
                                  std::to_string(::getpid())),
                        HasSubstr("--resume no"))));
  EXPECT_THAT([&] { RunFolder::open_existing(first.path()); }, ::testing::Throws<UsageError>());
}

TEST_F(RunFolderTest, AKilledProcessLeavesNoLock) {
  const int status = test::run_in_child([&]() -> int {
    const auto run = begin(options());
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(RunFolder::open(options()).is_resumed());
}

TEST_F(RunFolderTest, AForkedProcessDoesNotKeepTheLock) {
  pid_t child = 0;
  {
    const auto run = RunFolder::open(options());
    child = test::fork_child([] { return ::pause(); });
  }
  EXPECT_NO_THROW(RunFolder::open(options()));
  ::kill(child, SIGKILL);
  test::wait_for(child);
}

TEST_F(RunFolderTest, IsNeverALinkOrAFile) {
  make("real");
  std::filesystem::create_directory_symlink(runs("real"), runs("data-model"));
  EXPECT_THAT([&] { RunFolder::open(options()); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(runs("data-model")), HasSubstr("a link"))));
  std::ofstream(runs("other-model")) << "x";
  EXPECT_THAT([&] { RunFolder::open(options("other-model")); }, ::testing::Throws<IoError>());
}

TEST_F(RunFolderTest, HasNoLinkAsSubfolder) {
  const auto run = RunFolder::open(options());
  make("elsewhere");
  std::filesystem::create_directory_symlink(runs("elsewhere"), run.file("checkpoints"));
  EXPECT_THAT([&] { (void)run.make_subfolder("checkpoints"); },
              ThrowsMessage<IoError>(HasSubstr("is a link or a file")));
}

TEST_F(RunFolderTest, TheMarkIsNotWrittenThroughALink) {
  auto run = RunFolder::open(options());
  std::filesystem::create_symlink(folder_.file("victim"), run.file("finished"));
  EXPECT_THAT([&] { run.mark_finished(); }, ThrowsMessage<IoError>(HasSubstr("finished")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("victim")));
}

TEST_F(RunFolderTest, IsRefusedIfEveryoneMayWriteToIt) {
  make("data-model");
  ASSERT_EQ(::chmod(runs("data-model").c_str(), 0777), 0);
  EXPECT_THAT([&] { RunFolder::open(options()); }, ThrowsMessage<IoError>(HasSubstr("chmod o-w")));
}

TEST_F(RunFolderTest, TheRootMayBeALink) {
  std::filesystem::create_directories(folder_.file("disk"));
  std::filesystem::create_directory_symlink(folder_.file("disk"), folder_.file("runs"));
  const auto run = RunFolder::open(options());
  EXPECT_TRUE(std::filesystem::is_directory(folder_.file("disk/data-model")));
}

TEST_F(RunFolderTest, ThatVanishesSaysSo) {
  const auto run = RunFolder::open(options());
  EXPECT_EQ(run.moved_to(), "");
  std::filesystem::rename(run.path(), runs("elsewhere"));
  EXPECT_EQ(run.moved_to(), std::filesystem::canonical(runs("elsewhere")));
  std::filesystem::remove_all(runs("elsewhere"));
  EXPECT_EQ(run.moved_to(), "");
  EXPECT_FALSE(run.can_write());
  EXPECT_EQ(run.why_not(),
            "the run folder '" + run.path() + "' cannot be written: No such file or directory");
  make("data-model");
  EXPECT_THAT(run.why_not(), HasSubstr("another one has taken its place"));
}

TEST_F(RunFolderTest, ThatCannotBeMadeIsNoError) {
  std::ofstream(folder_.file("runs")) << "a file";
  auto run = RunFolder::open(options());
  EXPECT_EQ(run.path(), runs("data-model"));
  EXPECT_FALSE(run.can_write());
  EXPECT_EQ(run.why_not(),
            "the run folder '" + run.path() + "' cannot be written: Not a directory");
  EXPECT_THAT([&] { (void)run.make_subfolder("checkpoints"); },
              ThrowsMessage<IoError>(run.why_not()));
  EXPECT_THAT([&] { run.mark_finished(); }, ThrowsMessage<IoError>(run.why_not()));
}

// As another user than root, who may write everywhere.
bool become_nobody() { return ::geteuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0); }

TEST_F(RunFolderTest, ThatMayOnlyBeReadIsResumedAndSaysSo) {
  make("data-model");
  ASSERT_EQ(::chmod(folder_.file("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(runs("data-model").c_str(), 0555), 0);
  const int status = test::run_in_child([&] {
    if (!become_nobody()) {
      return 2;
    }
    auto unfinished = RunFolder::open(options());
    const auto made = RunFolder::open({.root = runs("data-model"), .name = "x"});
    const bool well = unfinished.is_resumed() &&
                      unfinished.why_not() == "the run folder '" + unfinished.path() +
                                                  "' cannot be written: Permission denied" &&
                      !made.can_write() && !made.is_resumed();
    return well ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(RunFolderTest, WhoseRootMayNotBeMadeSaysSo) {
  make("of_root");
  make("locked");
  ASSERT_EQ(::chmod(folder_.file("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(runs("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(runs("of_root").c_str(), 0555), 0);
  ASSERT_EQ(::chmod(runs("locked").c_str(), 0), 0);
  const int status = test::run_in_child([&] {
    if (!become_nobody()) {
      return 2;
    }
    for (const char* place : {"of_root", "locked"}) {
      const auto run = RunFolder::open({.root = runs(place) + "/new/root", .name = "x"});
      EXPECT_EQ(run.why_not(), "the run folder '" + runs(place) +
                                   "/new/root/x' cannot be written: Permission denied");
    }
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(RunFolderTest, OpensTheVeryFolderThatIsNamed) {
  {
    RunFolder::open(options()).mark_finished();
  }
  const auto run = RunFolder::open_existing(runs("data-model"));
  EXPECT_TRUE(run.is_finished());
  EXPECT_FALSE(run.is_resumed());
  EXPECT_THAT(
      [&] { RunFolder::open_existing(runs("nothing")); },
      ThrowsMessage<IoError>(HasSubstr("opening the run folder '" + runs("nothing") + "'")));
}

TEST_F(RunFolderTest, TheMarkCanBeTakenBack) {
  {
    RunFolder::open(options()).mark_finished();
  }
  {
    auto run = RunFolder::open_existing(runs("data-model"));
    run.mark_unfinished();
    EXPECT_FALSE(run.is_finished());
  }
  EXPECT_EQ(RunFolder::open(options()).path(), runs("data-model"));
}

TEST_F(RunFolderTest, AJobFindsItsRun) {
  auto next = options();
  next.resume = false;
  begin(next).set_job("a");
  begin(next).set_job("b");
  {
    const auto newest = begin(next);
  }
  EXPECT_EQ(newest_run_of_job(options().root, "data-model", "a"), runs("data-model"));
  EXPECT_EQ(newest_run_of_job(options().root, "data-model", "b"), runs("data-model-2"));
  EXPECT_EQ(newest_run_of_job(options().root, "data-model", "c"), "");
  EXPECT_EQ(job_of(runs("data-model-3")), "");
}

}  // namespace
}  // namespace lockstep::train
