#include "lockstep/train/run/lock_holder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/base/fd.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

TEST(LockHolder, IsTheProcessThatHasTheLock) {
  const test::TemporaryFolder folder;
  const auto open = [&] {
    return UniqueFd(::open(folder.file("").c_str(), O_RDONLY | O_DIRECTORY));
  };
  const UniqueFd asks = open();
  EXPECT_EQ(lock_holder(asks.get()), 0) << "nobody has it";
  const UniqueFd holds = open();
  ASSERT_EQ(::flock(holds.get(), LOCK_EX), 0);
  EXPECT_EQ(lock_holder(asks.get()), ::getpid());
}

TEST(LockHolder, IsNobodyIfTheListSaysNothingUseful) {
  const test::TemporaryFolder folder;
  const UniqueFd file(::open(folder.file("").c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(lock_holder(file.get(), folder.file("missing")), 0);
  std::ofstream(folder.file("list")) << "\n1: FLOCK\nx\n2: -> FLOCK ADVISORY WRITE 7 a:b:1 0 EOF\n";
  EXPECT_EQ(lock_holder(file.get(), folder.file("list")), 0);
  EXPECT_EQ(lock_holder(-1), 0);
}

}  // namespace
}  // namespace lockstep::train
