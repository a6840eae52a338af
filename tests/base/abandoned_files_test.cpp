#include "lockstep/base/abandoned_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::UnorderedElementsAre;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(AbandonedFiles, RemovesThoseThatNobodyHasLocked) {
  const test::TemporaryFolder folder;
  for (const char* name : {"cache-left", "cache-used", "cache-kept", "other"}) {
    std::ofstream(folder.file(name)) << "text";
  }
  ASSERT_EQ(::mkfifo(folder.file("cache-pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder.file("other"), folder.file("cache-link"));
  const UniqueFd used(::open(folder.file("cache-used").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(used.get(), LOCK_SH), 0);
  remove_abandoned_files(folder.path, "cache-", "cache-kept");
  EXPECT_THAT(names_in(folder.path), UnorderedElementsAre("cache-used", "cache-kept", "cache-pipe",
                                                          "cache-link", "other"));
}

TEST(AbandonedFiles, AFolderThatIsNotThereHasNone) {
  EXPECT_NO_THROW(remove_abandoned_files("/nonexistent", "cache-"));
}

TEST(AbandonedFiles, AFileThatWasReplacedIsNotNamedAnyMore) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a");
  std::ofstream(path) << "first";
  const UniqueFd first(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(is_still_named(first.get(), path));
  std::ofstream(folder.file("b")) << "second";
  std::filesystem::rename(folder.file("b"), path);
  EXPECT_FALSE(is_still_named(first.get(), path));
  std::filesystem::remove(path);
  EXPECT_FALSE(is_still_named(first.get(), path));
}

}  // namespace
}  // namespace lockstep
