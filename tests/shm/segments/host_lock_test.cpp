#include "lockstep/shm/segments/host_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep::shm {
namespace {

using std::chrono::milliseconds;

// Other tests of this machine take it as well, for moments.
bool is_free() { return HostLock().is_held(); }

TEST(ShmHostLock, IsHeldByOneAndFreeAfterwards) {
  std::optional<HostLock> first(std::in_place);
  ASSERT_TRUE(first->is_held());
  EXPECT_FALSE(HostLock(milliseconds(20)).is_held()) << "in the same process";
  first.reset();
  EXPECT_TRUE(is_free());
}

TEST(ShmHostLock, AnotherProcessWaitsForItAndThenHasIt) {
  std::optional<HostLock> first(std::in_place);
  const Pipe told = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool early = HostLock(milliseconds(50)).is_held();
    const bool said = write_all(told.write_end.get(), "x");
    const bool late = HostLock().is_held();
    ::_exit(!early && said && late ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(told.read_end.get(), &byte, 1), 1);
  first.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ShmHostLock, GoesWithAProcessThatIsKilled) {
  const Pipe told = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const HostLock lock;
    write_all(told.write_end.get(), lock.is_held() ? "x" : "-");
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(told.read_end.get(), &byte, 1), 1);
  ASSERT_EQ(byte, 'x');
  EXPECT_FALSE(HostLock(milliseconds(20)).is_held());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_free());
}

TEST(ShmHostLock, AForkThatLivesOnDoesNotKeepIt) {
  const Pipe end = make_pipe();
  pid_t child = 0;
  {
    const HostLock lock;
    ASSERT_TRUE(lock.is_held());
    child = ::fork();
    if (child == 0) {
      char byte = 0;
      ::_exit(::read(end.read_end.get(), &byte, 1) == 1 ? 0 : 1);
    }
  }
  EXPECT_TRUE(is_free());
  write_all(end.write_end.get(), "x");
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Somebody who keeps it must not stop everybody.
TEST(ShmHostLock, AfterItsPatienceTheCallerGoesOn) {
  const HostLock lock;
  const auto start = Deadline::Clock::now();
  EXPECT_FALSE(HostLock(milliseconds(100)).is_held());
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(100));
}

}  // namespace
}  // namespace lockstep::shm
