#include "lockstep/base/process/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace lockstep {
namespace {

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(ForkChild, RunsInAProcessOfItsOwnWhoseEndIsSeen) {
  const auto child = fork_child("a child", SIGKILL, [] { ::_exit(7); });
  EXPECT_NE(child.pid, ::getpid());
  pollfd end{child.handle.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 60'000), 1);
  EXPECT_EQ(WEXITSTATUS(status_of(child.pid)), 7);
}

TEST(ForkChild, GetsItsSignalWhenThisProcessDies) {
  Pipe grandchild = make_pipe();
  const auto child = fork_child("a child", SIGKILL, [&] {
    fork_child("a grandchild", SIGKILL, [] { ::pause(); });
    ::_exit(0);
  });
  status_of(child.pid);
  grandchild.write_end.reset();
  char byte = 0;
  EXPECT_EQ(::read(grandchild.read_end.get(), &byte, 1), 0);  // The end: it holds the pipe no more.
}

}  // namespace
}  // namespace lockstep
