// What is in a folder when an operation of a save fails, or the process is killed there.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/folder.h"
#include "tests/checkpoint/two_saved.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Says what it does; writes that follow each other count as one.
class RecordingFiles : public FileSystem {
 public:
  int create(int folder, const std::string& name) override {
    add("create " + name);
    return FileSystem::create(folder, name);
  }
  ssize_t write(int file, std::span<const std::byte> bytes) override {
    if (operations.back() != "write") {
      add("write");
    }
    return FileSystem::write(file, bytes);
  }
  int fsync(int file) override {
    struct stat status{};
    ::fstat(file, &status);
    add(S_ISDIR(status.st_mode) ? "fsync folder" : "fsync file");
    return FileSystem::fsync(file);
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    add("link " + from + " " + to);
    return FileSystem::link(folder, from, to);
  }
  int rename(int folder, const std::string& from, const std::string& to) override {
    add("rename " + from + " " + to);
    return FileSystem::rename(folder, from, to);
  }

  std::vector<std::string> operations;

 private:
  void add(const std::string& operation) { operations.push_back(operation); }
};

// The order is what a loss of power relies on.
TEST(Folder, AFileIsOnTheDiskBeforeItHasItsName) {
  const TwoSaved two;
  RecordingFiles files;
  Folder folder(two.folder.path, files);
  files.operations.clear();
  folder.save(small_checkpoint(3), {.best = true});
  EXPECT_THAT(
      files.operations,
      ElementsAre("create .last.pt.tmp", "write", "fsync file", "link last.pt .prev.pt.tmp",
                  "link .last.pt.tmp .best.pt.tmp", "rename .best.pt.tmp best.pt",
                  "rename .last.pt.tmp last.pt", "fsync folder", "rename .prev.pt.tmp prev.pt"));
}

// With those of the constructor.
int operations_of_a_save() {
  const TwoSaved two;
  FaultyFiles files;
  Folder(two.folder.path, files).save(small_checkpoint(3), {.best = true});
  return files.operations();
}

// Whatever failed: a whole checkpoint is there, old or new, and nothing half done.
void expect_sound(const test::TemporaryFolder& folder, const std::string& context) {
  FileSystem files;
  Folder opened(folder.path, files);  // As a restarted process does.
  EXPECT_THAT(folder.names(), Each(Not(StartsWith(".")))) << context;
  const auto loaded = load_newest(opened.path());
  EXPECT_EQ(loaded.reason, "") << context;
  EXPECT_GE(version_in(loaded.document), 2) << context;
  EXPECT_GE(version_of(folder.path + "/prev.pt"), 1) << context;
  if (version_in(loaded.document) == 3) {  // The best is not lost with the next save.
    EXPECT_EQ(version_of(folder.path + "/best.pt"), 3) << context;
  }
  opened.save(small_checkpoint(4), {.best = true});
  EXPECT_EQ(version_of(folder.path + "/last.pt"), 4) << context;
  EXPECT_THAT(folder.names(), Each(Not(StartsWith(".")))) << context;
}

TEST(Folder, WhateverOperationFailsACheckpointIsThere) {
  const int operations = operations_of_a_save();
  ASSERT_GT(operations, 35);
  for (const Fault fault :
       {Fault::kNoSpace, Fault::kInputOutput, Fault::kInterrupted, Fault::kShortWrite}) {
    for (int at = 0; at < operations; ++at) {
      const std::string context = "fault " + std::to_string(static_cast<int>(fault)) +
                                  " at operation " + std::to_string(at);
      const TwoSaved two;
      FaultyFiles files(at, fault);
      bool saved = true;
      try {
        Folder(two.folder.path, files).save(small_checkpoint(3), {.best = true});
      } catch (const IoError& error) {
        saved = false;
        EXPECT_THAT(error.what(), HasSubstr("checkpoint")) << context;
        EXPECT_THAT(error.what(), HasSubstr(two.folder.path)) << context;
        const float last = version_of(two.folder.path + "/last.pt");
        EXPECT_THAT(error.what(), Not(HasSubstr(last == 2 ? "new file" : "before"))) << context;
      }
      // A write may be short or interrupted; anything else that fails is told.
      EXPECT_EQ(saved,
                fault == Fault::kShortWrite || (fault == Fault::kInterrupted && files.was_write()))
          << context;
      if (!files.was_unlink()) {
        EXPECT_THAT(two.folder.names(), Each(Not(StartsWith(".")))) << context;
      }
      if (saved) {
        EXPECT_EQ(version_of(two.folder.path + "/last.pt"), 3) << context;
      }
      expect_sound(two.folder, context);
    }
  }
}

// Saves version 3 in another process, which is killed at this operation.
void save_and_be_killed(const std::string& folder, int at, Fault fault) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFiles files(at, fault);
    Folder(folder, files).save(small_checkpoint(3), {.best = true});
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << at;
}

TEST(Folder, WhereverTheProcessIsKilledACheckpointIsThere) {
  const int operations = operations_of_a_save();
  for (const Fault fault : {Fault::kKill, Fault::kKillAfter}) {
    for (int at = 0; at < operations; ++at) {
      const TwoSaved two;
      save_and_be_killed(two.folder.path, at, fault);
      expect_sound(two.folder, "killed at operation " + std::to_string(at));
    }
  }
}

// A run that went on from prev.pt has one sound file: a save must not push it out too early.
TEST(Folder, ADamagedFileDoesNotReplaceTheSoundOneBeforeTheNewOneIsThere) {
  const int operations = operations_of_a_save();
  for (const Fault fault : {Fault::kKill, Fault::kKillAfter}) {
    for (int at = 0; at < operations; ++at) {
      const TwoSaved two;
      damage(two.folder.path + "/last.pt");
      save_and_be_killed(two.folder.path, at, fault);
      FileSystem files;
      const Folder opened(two.folder.path, files);
      EXPECT_NO_THROW((void)load_newest(two.folder.path)) << "killed at operation " << at;
    }
  }
}

TEST(Folder, AFailedSaveDoesNotPromiseAnOldFileThatIsGone) {
  TwoSaved two;
  Folder folder(two.folder.path, two.files);
  std::filesystem::remove_all(two.folder.path);
  EXPECT_THAT([&] { folder.save(small_checkpoint(3)); },
              ::testing::ThrowsMessage<IoError>(HasSubstr("('last.pt' is not there)")));
}

}  // namespace
}  // namespace lockstep::checkpoint
