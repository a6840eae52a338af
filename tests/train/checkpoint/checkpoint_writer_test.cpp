#include "lockstep/train/checkpoint/checkpoint_writer.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Checkpoint with_weight(double value) {
  Checkpoint checkpoint;
  checkpoint.model = {{"weight", at::full({1000}, value, at::kFloat)}};
  return checkpoint;
}

double weight_in(const std::string& folder) {
  return load_checkpoint(folder).checkpoint.model.at(0).second[0].item<double>();
}

// Holds the first write until it is let go.
class HeldFiles : public checkpoint::FileSystem {
 public:
  ssize_t write(int file, std::span<const std::byte> bytes) override {
    go_.wait();
    return FileSystem::write(file, bytes);
  }
  void let_go() { go_.count_down(); }

 private:
  std::latch go_{1};
};

TEST(CheckpointWriter, TrainingGoesOnWhileTheFileIsWritten) {
  const TemporaryFolder folder;
  HeldFiles files;
  CheckpointWriter writer(folder.path + "/run", files);
  auto checkpoint = with_weight(1);
  writer.save(checkpoint);  // Returns, though nothing can be written.
  checkpoint.model[0].second.fill_(2);
  EXPECT_THAT([&] { writer.wait(Deadline::in(std::chrono::milliseconds(1))); },
              ThrowsMessage<IoError>(HasSubstr("is not written after 1 ms")));
  files.let_go();
  writer.wait();
  EXPECT_EQ(weight_in(folder.path + "/run"), 1);  // As it was when it was saved.
}

// The first write of a first save into a folder that is there.
class OneFailingWrite : public checkpoint::FileSystem {
 public:
  ssize_t write(int file, std::span<const std::byte> bytes) override {
    if (std::exchange(is_first_, false)) {
      errno = ENOSPC;
      return -1;
    }
    return FileSystem::write(file, bytes);
  }

 private:
  bool is_first_ = true;
};

TEST(CheckpointWriter, AnErrorOfTheBackgroundArrivesOnceAndTheCheckpointIsSavedNevertheless) {
  const TemporaryFolder folder;
  OneFailingWrite files;
  CheckpointWriter writer(folder.path, files);
  writer.save(with_weight(1));
  EXPECT_THAT([&] { writer.save(with_weight(2)); },
              ThrowsMessage<IoError>(HasSubstr("No space left on device")));
  EXPECT_NO_THROW(writer.wait());
  EXPECT_EQ(weight_in(folder.path), 2);
  writer.save(with_weight(3));
  writer.wait();
  EXPECT_EQ(weight_in(folder.path), 3);
}

TEST(CheckpointWriter, AnErrorIsKeptWhereTheNextCheckpointCannotBeSaved) {
  const TemporaryFolder folder;
  OneFailingWrite files;
  CheckpointWriter writer(folder.path, files);
  writer.save(with_weight(1));
  Checkpoint undefined;
  undefined.model = {{"weight", at::Tensor()}};
  EXPECT_THAT([&] { writer.save(undefined); },
              ThrowsMessage<UsageError>(HasSubstr("'weight': checkpoint: only dense tensors")));
  EXPECT_THROW(writer.wait(), IoError);
}

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

TEST(CheckpointWriter, AnErrorThatNobodyWaitedForIsAWarning) {
  const TemporaryFolder folder;
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  {
    OneFailingWrite files;
    CheckpointWriter writer(folder.path, files);
    writer.save(with_weight(1));
  }
  ASSERT_EQ(warnings.texts.size(), 1U);
  EXPECT_THAT(warnings.texts[0], HasSubstr("was not written: "));
  EXPECT_THAT(warnings.texts[0], HasSubstr("No space left on device"));
}

TEST(CheckpointWriter, ASecondOneForAFolderIsRefused) {
  const TemporaryFolder folder;
  const CheckpointWriter writer(folder.path);
  EXPECT_THAT([&] { CheckpointWriter(folder.path); },
              ThrowsMessage<IoError>(HasSubstr("is in use by another writer")));
}

class SyncedFolders : public checkpoint::FileSystem {
 public:
  int fsync(int file) override {
    struct stat status{};
    ::fstat(file, &status);
    inodes.insert(status.st_ino);
    return FileSystem::fsync(file);
  }
  std::set<ino_t> inodes;
};

TEST(CheckpointWriter, TheFolderAboveANewOneIsSynced) {
  const TemporaryFolder folder;
  SyncedFolders files;
  const CheckpointWriter writer(folder.path + "/run/", files);
  struct stat status{};
  ASSERT_EQ(::stat(folder.path.c_str(), &status), 0);
  EXPECT_TRUE(files.inodes.contains(status.st_ino));
}

TEST(CheckpointWriter, AllMissingFoldersAreMadeForTheirOwnerAloneAndTheirNamesSynced) {
  const TemporaryFolder folder;
  SyncedFolders files;
  {
    CheckpointWriter writer(folder.path + "/runs/a/checkpoints", files);
    writer.save(with_weight(1));
    writer.wait();
  }
  EXPECT_EQ(weight_in(folder.path + "/runs/a/checkpoints"), 1);
  for (const char* made : {"/runs", "/runs/a", "/runs/a/checkpoints"}) {
    struct stat status{};
    ASSERT_EQ(::stat((folder.path + made).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U) << made;
    ASSERT_EQ(::stat((folder.path + made + "/..").c_str(), &status), 0);
    EXPECT_TRUE(files.inodes.contains(status.st_ino)) << made;
  }
  EXPECT_NO_THROW(CheckpointWriter(folder.path + "/runs/b/checkpoints//"));
  std::filesystem::create_symlink("nowhere", folder.path + "/dangling");
  EXPECT_THAT([&] { CheckpointWriter(folder.path + "/dangling/checkpoints"); },
              ThrowsMessage<IoError>(HasSubstr("/dangling/checkpoints'")));
}

TEST(CheckpointWriter, ADamagedFileIsPassedOver) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path);
  writer.save(with_weight(1), {.best = true});
  writer.save(with_weight(2));
  writer.wait();
  EXPECT_EQ(weight_in(folder.path + "/best.pt"), 1);
  {
    std::fstream last(folder.path + "/last.pt", std::ios::in | std::ios::out);
    last.seekp(2000);
    last.put('!');
  }
  const auto loaded = load_checkpoint(folder.path);
  EXPECT_EQ(loaded.file, folder.path + "/prev.pt");
  EXPECT_THAT(loaded.reason, HasSubstr("(tensor 'model.weight')"));
  EXPECT_EQ(weight_in(folder.path), 1);
}

TEST(CheckpointWriter, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT([] { CheckpointWriter("/proc/no/such"); },
              ThrowsMessage<IoError>(HasSubstr("'/proc/no/such'")));
}

}  // namespace
}  // namespace lockstep
