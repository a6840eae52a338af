#include "lockstep/launch/agent_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "lockstep/base/process/child.h"
#include "lockstep/launch/time_limits.h"
#include "tests/launch/job.h"

namespace lockstep::launch {
namespace {

constexpr unsigned char kCode = 7;
constexpr int kKilled = 99;  // It did not end in time.

// An agent of these habits, which sends its supervisor both signals itself.
struct Habits {
  bool announces_before = false;
  bool announces_after = false;
};

void signal_and_hear_it(int link, pid_t supervisor) {
  char number = 0;
  ::kill(supervisor, SIGTERM);
  while (::recv(link, &number, 1, 0) != 1) {
  }
}

[[noreturn]] void be_slow(int link, const Habits& habits) {
  const pid_t supervisor = ::getppid();
  signal_and_hear_it(link, supervisor);
  if (habits.announces_before) {
    ::send(link, &kCode, 1, MSG_NOSIGNAL);
  }
  signal_and_hear_it(link, supervisor);
  if (habits.announces_after) {
    ::send(link, &kCode, 1, MSG_NOSIGNAL);
  }
  std::this_thread::sleep_for(kAgentPatience *
                              2);  // More than without a word; less than kTidyPatience.
  ::_exit(kCode);
}

// How the supervisor takes the end of such an agent.
int end_of(const Habits& habits) {
  return exit_code_of([&] {
    const Signals signals({SIGTERM});
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return 1;
    }
    UniqueFd ours(ends[0]);
    UniqueFd theirs(ends[1]);
    const auto agent = fork_child("an agent", SIGKILL, [&] { be_slow(theirs.get(), habits); });
    theirs.reset();
    AgentWatch watch(agent.pid, std::move(ours), signals);
    const auto status = watch.wait();
    return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : kKilled;
  });
}

TEST(AgentWatch, ASecondSignalLeavesASilentAgentLittleTime) { EXPECT_EQ(end_of({}), kKilled); }

TEST(AgentWatch, OneThatHasAnnouncedTheExitCodeMayTidyUp) {
  EXPECT_EQ(end_of({.announces_before = true}), kCode);
}

TEST(AgentWatch, OneThatAnnouncesTheExitCodeAfterTheSecondSignalMayTidyUp) {
  EXPECT_EQ(end_of({.announces_after = true}), kCode);
}

}  // namespace
}  // namespace lockstep::launch
