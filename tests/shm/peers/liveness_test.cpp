#include "lockstep/shm/peers/liveness.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/shm/teams.h"
#include "tests/support/idle_process.h"

namespace lockstep::shm {
namespace {

using test::IdleProcess;
using testing::soon;

std::optional<int> look_until_ended(Liveness& liveness, const Liveness::ProcessPointer& process) {
  const auto deadline = soon();
  while (!process->ended_by() && !deadline.passed()) {
    liveness.look();
    std::this_thread::yield();
  }
  return process->ended_by();
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// With pidfds, and without.
class ShmLiveness : public ::testing::TestWithParam<std::size_t> {
 protected:
  Liveness liveness_{{.most_pidfds = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(MostPidfds, ShmLiveness, ::testing::Values(100, 0));

TEST_P(ShmLiveness, AProcessThatWasKilledHasEndedByItsSignal) {
  IdleProcess idle;
  const auto process = liveness_.watch(identify(idle.pid()));
  liveness_.look();
  EXPECT_FALSE(process->ended_by());
  idle.kill();
  EXPECT_EQ(look_until_ended(liveness_, process), SIGKILL);
}

TEST_P(ShmLiveness, AProcessThatNobodyKnowsAnyMoreHasEnded) {
  IdleProcess idle;
  const auto id = identify(idle.pid());
  idle.kill();
  idle.reap();
  EXPECT_EQ(look_until_ended(liveness_, liveness_.watch(id)), 0);
}

TEST_P(ShmLiveness, AStoppedProcessHasNotEnded) {
  const IdleProcess idle;
  const auto process = liveness_.watch(identify(idle.pid()));
  ::kill(idle.pid(), SIGSTOP);
  while (state_of(identify(idle.pid())).life != Life::kStopped) {
    std::this_thread::yield();
  }
  liveness_.look();
  EXPECT_FALSE(process->ended_by());
}

TEST_P(ShmLiveness, AForkThatLivesOnHidesNoDeath) {
  Pipe pipe = make_pipe();  // The fork lives until its other end is closed.
  const pid_t child = ::fork();
  if (child == 0) {
    pipe.write_end.reset();
    if (::fork() != 0) {
      ::pause();
    }
    char byte = 0;
    ::_exit(static_cast<int>(::read(pipe.read_end.get(), &byte, 1)));
  }
  const auto process = liveness_.watch(identify(child));
  ::kill(child, SIGKILL);
  EXPECT_EQ(look_until_ended(liveness_, process), SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_P(ShmLiveness, AnotherProcessWithThePidIsNotIt) {
  const IdleProcess idle;
  auto id = identify(idle.pid());
  id.start_time += 1;
  EXPECT_EQ(look_until_ended(liveness_, liveness_.watch(id)), 0);
}

TEST_P(ShmLiveness, ThisProcessLives) {
  const auto process = liveness_.watch(identify(::getpid()));
  liveness_.look();
  EXPECT_FALSE(process->ended_by());
  EXPECT_EQ(liveness_.pidfds(), 0U);
}

TEST_P(ShmLiveness, KnowsManyThatEndAtOnce) {
  std::vector<std::unique_ptr<IdleProcess>> idles;
  std::vector<Liveness::ProcessPointer> processes;
  for (int i = 0; i < 80; ++i) {
    idles.push_back(std::make_unique<IdleProcess>());
    processes.push_back(liveness_.watch(identify(idles.back()->pid())));
  }
  for (const auto& idle : idles) {
    idle->kill();
    // It is a zombie once the kill has reached it.
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(idle->pid()), &info, WEXITED | WNOWAIT);
  }
  liveness_.look();
  for (const auto& process : processes) {
    EXPECT_EQ(process->ended_by(), SIGKILL);
  }
}

TEST(ShmLivenessPidfds, AreOneForEachProcessHoweverOftenItIsWatched) {
  Liveness liveness;
  const IdleProcess idle;
  const auto before = descriptors();
  {
    const auto one = liveness.watch(identify(idle.pid()));
    const auto two = liveness.watch(identify(idle.pid()));
    EXPECT_EQ(one, two);
    EXPECT_EQ(liveness.pidfds(), 1U);
    EXPECT_EQ(descriptors(), before + 1);
  }
  EXPECT_EQ(liveness.pidfds(), 0U);
  EXPECT_EQ(descriptors(), before);
}

TEST(ShmLivenessPidfds, AreNoMoreThanAQuarterOfAllDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 8, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  Liveness liveness;
  ::setrlimit(RLIMIT_NOFILE, &before);
  std::vector<std::unique_ptr<IdleProcess>> idles;
  std::vector<Liveness::ProcessPointer> processes;
  for (int i = 0; i < 5; ++i) {
    idles.push_back(std::make_unique<IdleProcess>());
    processes.push_back(liveness.watch(identify(idles.back()->pid())));
  }
  EXPECT_EQ(liveness.pidfds(), 2U);
  idles.back()->kill();
  EXPECT_EQ(look_until_ended(liveness, processes.back()), SIGKILL);
  idles.front()->kill();
  EXPECT_EQ(look_until_ended(liveness, processes.front()), SIGKILL);
}

TEST(ShmLivenessPidfds, AreLeftAloneByAForkThatForgetsThem) {
  Liveness liveness;
  IdleProcess idle;
  auto process = liveness.watch(identify(idle.pid()));
  const pid_t child = ::fork();
  if (child == 0) {
    process.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  idle.kill();
  EXPECT_EQ(look_until_ended(liveness, process), SIGKILL);
}

// A fork that holds the pidfd open must not make the epoll report it for ever.
TEST(ShmLivenessPidfds, AreForgottenAlsoWhenAForkHoldsThem) {
  Liveness liveness;
  IdleProcess idle;
  auto process = liveness.watch(identify(idle.pid()));
  const IdleProcess holder;
  process.reset();
  idle.kill();
  const IdleProcess other;
  const auto next = liveness.watch(identify(other.pid()));  // Gets the number of the one before.
  idle.reap();
  liveness.look();
  EXPECT_FALSE(next->ended_by());
}

TEST(ShmLivenessOfThisProcess, IsOneAndAForkHasAnother) {
  Liveness& own = Liveness::of_this_process();
  EXPECT_EQ(&own, &Liveness::of_this_process());
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(&Liveness::of_this_process() != &own ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::shm
