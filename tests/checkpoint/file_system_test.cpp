#include "lockstep/checkpoint/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/base/fd.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::checkpoint {
namespace {

TEST(FileSystem, NewFilesBelongToTheirOwnerAlone) {
  const test::TemporaryFolder folder;
  FileSystem files;
  const UniqueFd opened(files.open_folder(folder.path));
  const UniqueFd file(files.create(opened.get(), "a"));
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(FileSystem, LinksAreNotFollowed) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("elsewhere", folder.path + "/link");
  std::filesystem::create_directory_symlink(".", folder.path + "/folder");
  FileSystem files;
  const UniqueFd opened(files.open_folder(folder.path));
  EXPECT_EQ(files.create(opened.get(), "link"), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(files.open_folder(folder.path + "/folder"), -1);
}

TEST(FileSystem, ALockIsForOneDescriptorAtATime) {
  const test::TemporaryFolder folder;
  FileSystem files;
  const UniqueFd one(files.open_folder(folder.path));
  const UniqueFd other(files.open_folder(folder.path));
  ASSERT_EQ(files.lock(one.get()), 0);
  EXPECT_EQ(files.lock(other.get()), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  ASSERT_EQ(files.unlock(one.get()), 0);
  EXPECT_EQ(files.lock(other.get()), 0);
}

}  // namespace
}  // namespace lockstep::checkpoint
