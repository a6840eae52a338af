#include "lockstep/base/process/stop_notice.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/child.h"

namespace lockstep {
namespace {

TEST(StopNotice, IsHeldBackUntilItIsLetIn) {
  const int held = test::run_in_child([] {
    hold_back_stop_notice();
    ::kill(::getpid(), SIGUSR1);
    return 7;
  });
  EXPECT_TRUE(WIFEXITED(held) && WEXITSTATUS(held) == 7) << held;
  const int let_in = test::run_in_child([] {
    hold_back_stop_notice();
    ::kill(::getpid(), SIGUSR1);
    let_stop_notice_in();
    return 7;
  });
  EXPECT_TRUE(WIFSIGNALED(let_in) && WTERMSIG(let_in) == SIGUSR1) << let_in;
}

TEST(StopNotice, OtherSignalsAreNotHeldBack) {
  const int status = test::run_in_child([] {
    hold_back_stop_notice();
    ::kill(::getpid(), SIGTERM);
    return 7;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

}  // namespace
}  // namespace lockstep
