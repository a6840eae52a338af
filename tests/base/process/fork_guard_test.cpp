#include "lockstep/base/process/fork_guard.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

TEST(ForkGuard, KnowsAForkFromItsOwner) {
  const ForkGuard guard;
  EXPECT_TRUE(guard.in_owner());
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(guard.in_owner() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(guard.in_owner());
}

}  // namespace
}  // namespace lockstep
