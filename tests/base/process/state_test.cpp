#include "lockstep/base/process/state.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "lockstep/base/deadline.h"
#include "tests/support/idle_process.h"

namespace lockstep {
namespace {

Life wait_for(const ProcessId& process, Life wanted) {
  const auto deadline = Deadline::in(std::chrono::seconds(10));
  while (state_of(process).life != wanted && !deadline.passed()) {
    std::this_thread::yield();
  }
  return state_of(process).life;
}

TEST(StateOf, ThisProcessRuns) { EXPECT_EQ(state_of(identify(::getpid())).life, Life::kRunning); }

TEST(StateOf, AStoppedProcessGoesOn) {
  const test::IdleProcess child;
  const auto process = identify(child.pid());
  ::kill(child.pid(), SIGSTOP);
  EXPECT_EQ(wait_for(process, Life::kStopped), Life::kStopped);
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(wait_for(process, Life::kRunning), Life::kRunning);
}

TEST(StateOf, AZombieHasEndedAndItsSignalIsKnown) {
  test::IdleProcess child;
  const auto process = identify(child.pid());
  ::kill(child.pid(), SIGKILL);
  ASSERT_EQ(wait_for(process, Life::kEnded), Life::kEnded);
  EXPECT_EQ(state_of(process).signal, SIGKILL);
  child.reap();
  EXPECT_EQ(state_of(process).life, Life::kEnded);
}

TEST(StateOf, AnotherProcessWithTheSamePidIsNotIt) {
  ProcessId other = identify(::getpid());
  other.start_time += 1;
  EXPECT_EQ(state_of(other).life, Life::kEnded);
}

TEST(StateOf, AProcessThatCannotBeLookedAtRuns) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const auto process = identify(::getpid());
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto state = state_of(process);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(state.life, Life::kRunning);
}

TEST(Identify, APidThatIsNoneHasEnded) {
  EXPECT_EQ(state_of(identify(1 << 30)).life, Life::kEnded);
}

}  // namespace
}  // namespace lockstep
