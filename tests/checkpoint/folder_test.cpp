#include "lockstep/checkpoint/folder.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/checkpoint/two_saved.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

TEST(Folder, KeepsTheLastTheOneBeforeAndTheBest) {
  const TwoSaved two;
  FileSystem files;
  Folder folder(two.folder.path, files);
  folder.save(small_checkpoint(3), {.best = true});
  folder.save(small_checkpoint(4));
  EXPECT_EQ(version_of(folder.path() + "/last.pt"), 4);
  EXPECT_EQ(version_of(folder.path() + "/prev.pt"), 3);
  EXPECT_EQ(version_of(folder.path() + "/best.pt"), 3);
  EXPECT_THAT(two.folder.names(), UnorderedElementsAre("last.pt", "prev.pt", "best.pt"));
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() + "/last.pt").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(Folder, ADamagedOrMissingFileIsPassedOverWithTheReason) {
  const TwoSaved two;
  FileSystem files;
  const Folder folder(two.folder.path, files);
  EXPECT_EQ(load_newest(folder.path()).reason, "");
  EXPECT_EQ(version_in(load_newest(folder.path()).document), 2);
  damage(folder.path() + "/last.pt");
  const auto loaded = load_newest(folder.path());
  EXPECT_EQ(version_in(loaded.document), 1);
  EXPECT_EQ(loaded.file, folder.path() + "/prev.pt");
  EXPECT_THAT(loaded.reason, AllOf(HasSubstr("last.pt' is damaged"), HasSubstr("at byte")));
  std::filesystem::remove(folder.path() + "/last.pt");
  EXPECT_THAT(load_newest(folder.path()).reason, HasSubstr("last.pt': No such file"));
  std::filesystem::remove(folder.path() + "/prev.pt");
  EXPECT_THAT([&] { (void)load_newest(folder.path()); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("last.pt'"), HasSubstr("prev.pt'"))));
}

// It may be sound: to go on from an older one would lose work unseen.
TEST(Folder, AFileThatCannotBeOpenedOrIsOfAnotherVersionIsNotPassedOver) {
  const TwoSaved two;
  const std::string last = two.folder.path + "/last.pt";
  const auto expect = [&](const char* what) {
    EXPECT_THAT([&] { (void)load_newest(two.folder.path); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(what), Not(HasSubstr("prev.pt")))));
  };
  std::string file;
  ZipWriter zip([&](std::span<const std::byte> bytes) { file += as_text(bytes); }, "x");
  zip.add(".lockstep/manifest", as_bytes("lockstep checkpoint 2\n"));
  zip.finish(0);
  std::ofstream(last, std::ios::binary) << file;
  expect("manifest of another version");
  std::filesystem::remove(last);
  std::filesystem::create_symlink("prev.pt", last);
  expect("it is a link");
  std::filesystem::remove(last);
  std::filesystem::create_directory(last);
  expect("is a folder");
}

TEST(Folder, HasOneWriterAtATime) {
  const TwoSaved two;
  FileSystem files;
  {
    const Folder folder(two.folder.path, files);
    std::ofstream(folder.path() + "/.last.pt.tmp") << "half";
    EXPECT_THAT([&] { Folder(two.folder.path, files); },
                ThrowsMessage<IoError>(HasSubstr("is in use by another writer")));
    EXPECT_EQ(read_file(folder.path() + "/.last.pt.tmp"), "half");  // Not cleaned up.
  }
  EXPECT_NO_THROW(Folder(two.folder.path, files));
}

TEST(Folder, AProcessThatWasForkedMeanwhileDoesNotKeepTheFolder) {
  const TwoSaved two;
  FileSystem files;
  const Pipe pipe = make_pipe();
  pid_t child = 0;
  {
    const Folder folder(two.folder.path, files);
    child = ::fork();
    if (child == 0) {
      ::close(pipe.write_end.get());
      char end = 0;
      ::_exit(::read(pipe.read_end.get(), &end, 1) == 1 ? 0 : 1);
    }
  }
  EXPECT_NO_THROW(Folder(two.folder.path, files));
  ASSERT_TRUE(write_all(pipe.write_end.get(), "x"));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class FilesWithoutLinks : public FileSystem {
 public:
  int link(int /*folder*/, const std::string& /*from*/, const std::string& /*to*/) override {
    errno = EPERM;
    return -1;
  }
};

TEST(Folder, AFileSystemWithoutLinksIsRefusedBeforeTheFirstSave) {
  const test::TemporaryFolder folder;
  FilesWithoutLinks files;
  EXPECT_THAT([&] { Folder(folder.path, files); },
              ThrowsMessage<IoError>(HasSubstr("choose a folder on a file system with hard")));
  EXPECT_THAT(folder.names(), ElementsAre());
}

TEST(Folder, FoldersThatOthersCouldTurnAgainstUsAreRefused) {
  const test::TemporaryFolder folder;
  FileSystem files;
  ::chmod(folder.path.c_str(), 0777);
  EXPECT_THAT([&] { Folder(folder.path, files); },
              ThrowsMessage<IoError>(HasSubstr("can be written by everyone")));
  ::chmod(folder.path.c_str(), 01777);
  EXPECT_NO_THROW(Folder(folder.path, files));
  const test::TemporaryFolder other;
  std::filesystem::create_directory_symlink(folder.path, other.path + "/link");
  for (const char* link : {"/link", "/link/"}) {
    EXPECT_THAT([&] { Folder(other.path + link, files); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("opening the folder of checkpoints"),
                                             HasSubstr("it is a link"))));
  }
}

TEST(LoadNewest, FoldersThatOthersCouldTurnAgainstUsAreRefused) {
  const TwoSaved two;
  ::chmod(two.folder.path.c_str(), 0777);
  EXPECT_THAT([&] { load_newest(two.folder.path); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("can be written by everyone"), HasSubstr("chmod o-w it"))));
  ::chmod(two.folder.path.c_str(), 01777);
  EXPECT_EQ(version_in(load_newest(two.folder.path).document), 2);
  const test::TemporaryFolder other;
  std::filesystem::create_directory_symlink(two.folder.path, other.path + "/link");
  for (const char* link : {"/link", "/link/"}) {
    EXPECT_THAT([&] { load_newest(other.path + link); },
                ThrowsMessage<IoError>(HasSubstr("/link': it is a link")));
  }
  EXPECT_EQ(version_in(load_newest(two.folder.path + "/").document), 2);
}

// The signal would end the program without a word.
TEST(Folder, AFileThatGetsTooLargeIsAnErrorAndNoSignal) {
  const TwoSaved two;
  FileSystem files;
  Folder folder(two.folder.path, files);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  std::string error;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    folder.save(small_checkpoint(3));
  } catch (const IoError& caught) {
    error = caught.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, HasSubstr("File too large"));
  EXPECT_EQ(version_of(folder.path() + "/last.pt"), 2);
  EXPECT_THAT(two.folder.names(), UnorderedElementsAre("last.pt", "prev.pt"));
}

TEST(Folder, ALinkInThePlaceOfATemporaryFileIsNotFollowed) {
  const TwoSaved two;
  FileSystem files;
  Folder folder(two.folder.path, files);
  std::ofstream(folder.path() + "/victim") << "mine";
  std::filesystem::create_symlink("victim", folder.path() + "/.last.pt.tmp");
  folder.save(small_checkpoint(3));
  EXPECT_EQ(version_of(folder.path() + "/last.pt"), 3);
  EXPECT_EQ(read_file(folder.path() + "/victim"), "mine");
}

TEST(ReplaceFile, WhatTheWriterThrowsPassesAndLeavesNothing) {
  const TwoSaved two;
  FileSystem files;
  EXPECT_THROW(replace_file(files, two.folder.path, {"last.pt", "prev.pt"},
                            [](const Sink& sink) {
                              sink(as_bytes("half"));
                              throw UsageError("no more");
                            }),
               UsageError);
  EXPECT_THAT(two.folder.names(), UnorderedElementsAre("last.pt", "prev.pt"));
  EXPECT_EQ(version_of(two.folder.path + "/last.pt"), 2);
}

void write_text(const Sink& sink, const std::string& text) { sink(as_bytes(text)); }

TEST(ReplaceFile, TwoWritersOfOneFileDoNotMeet) {
  const test::TemporaryFolder folder;
  FileSystem files;
  replace_file(files, folder.path, {"a"}, [&](const Sink& sink) {
    write_text(sink, "one");
    replace_file(files, folder.path, {"a"}, [](const Sink& other) { write_text(other, "two"); });
    EXPECT_EQ(folder.read("a"), "two");
    write_text(sink, " more");
  });
  EXPECT_EQ(folder.read("a"), "one more");
  EXPECT_THAT(folder.names(), UnorderedElementsAre("a"));
}

TEST(ReplaceFile, LeavesNothingBehindWhereItFails) {
  const test::TemporaryFolder folder;
  FileSystem files;
  EXPECT_THROW(replace_file(files, folder.path, {"a"},
                            [](const Sink& sink) {
                              write_text(sink, "half");
                              throw UsageError("no more");
                            }),
               UsageError);
  EXPECT_THAT(folder.names(), UnorderedElementsAre());
}

TEST(ReplaceFile, AFolderThatEveryoneMayWriteToIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path.c_str(), 0777), 0);
  FileSystem files;
  const auto write = [&] {
    replace_file(files, folder.path, {"a"}, [](const Sink& sink) { write_text(sink, "one"); });
  };
  EXPECT_THAT(write, ThrowsMessage<IoError>(HasSubstr("written by everyone")));
  EXPECT_THAT(folder.names(), UnorderedElementsAre());
  ASSERT_EQ(::chmod(folder.path.c_str(), 01777), 0);
  write();
  EXPECT_EQ(folder.read("a"), "one");
}

// Between a look at the folder and the opening of its file, another could have its name.
TEST(LoadNewest, AFolderThatBecomesALinkIsNotFollowed) {
  const TwoSaved two;
  const TwoSaved others;
  FileSystem files;
  Folder(others.folder.path, files).save(small_checkpoint(9));
  const test::TemporaryFolder place;
  const std::string path = place.path + "/checkpoints";
  std::filesystem::create_directory_symlink(others.folder.path, place.path + "/link");
  std::filesystem::copy(two.folder.path, path);
  std::atomic<bool> is_done = false;
  std::thread swaps([&] {
    while (!is_done) {
      std::filesystem::rename(path, place.path + "/aside");
      std::filesystem::rename(place.path + "/link", path);
      std::filesystem::rename(path, place.path + "/link");
      std::filesystem::rename(place.path + "/aside", path);
    }
  });
  int followed = 0;
  for (int i = 0; i < 3000; ++i) {
    try {
      followed += version_in(load_newest(path).document) == 9 ? 1 : 0;
    } catch (const IoError&) {  // The name is not there, or a link's.
    }
  }
  is_done = true;
  swaps.join();
  EXPECT_EQ(followed, 0);
}

}  // namespace
}  // namespace lockstep::checkpoint
