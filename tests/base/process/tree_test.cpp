#include "lockstep/base/process/tree.h"

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "lockstep/base/fd.h"
#include "tests/support/child.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using test::fork_child;
using test::is_alive;
using test::run_in_child;
using test::wait_for;
using ::testing::Contains;
using ::testing::Not;

[[noreturn]] void sleep_for_ever() {
  for (;;) {
    ::pause();
  }
}

// A pipe through which a descendant tells its process id.
class PidReport {
 public:
  void send() const {
    const pid_t pid = ::getpid();
    write_all(pipe_.write_end.get(), {reinterpret_cast<const char*>(&pid), sizeof pid});
  }
  pid_t receive() const {
    pid_t pid = 0;
    return ::read(pipe_.read_end.get(), &pid, sizeof pid) == sizeof pid ? pid : -1;
  }

 private:
  Pipe pipe_ = make_pipe();
};

// Starts a grandchild the way a daemon does: forked twice, in a session of its own, its parent
// gone.
pid_t start_daemon() {
  const PidReport report;
  const pid_t middle = fork_child([&] {
    ::setsid();
    fork_child([&]() -> int {
      ::setsid();
      ::signal(SIGTERM, SIG_IGN);
      report.send();
      sleep_for_ever();
    });
    return 0;
  });
  wait_for(middle);
  return report.receive();
}

char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return stat.at(stat.rfind(')') + 2);
}

// Waits until the kernel shows the process in that state; a test that never gets there times out.
void wait_until_state(pid_t pid, char state) {
  while (state_of(pid) != state) {
    std::this_thread::yield();
  }
}

TEST(DescendantsOf, FindsDaemonsOfASubreaper) {
  EXPECT_EQ(run_in_child([] {
              become_subreaper();
              const pid_t daemon = start_daemon();
              const auto found = descendants_of(::getpid());
              ::kill(daemon, SIGKILL);
              return found == std::vector<pid_t>{daemon} ? 0 : 1;
            }),
            0);
}

TEST(DescendantsOf, FindsGrandchildren) {
  const PidReport report;
  const pid_t child = fork_child([&]() -> int {
    const pid_t grandchild = fork_child([&]() -> int {
      report.send();
      sleep_for_ever();
    });
    return wait_for(grandchild);
  });
  const pid_t grandchild = report.receive();
  EXPECT_THAT(descendants_of(::getpid()), ::testing::UnorderedElementsAre(child, grandchild));
  ::kill(grandchild, SIGKILL);
  wait_for(child);
}

TEST(DescendantsOf, LeavesZombiesOut) {
  const pid_t child = fork_child([] { return 0; });
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(descendants_of(::getpid()), Not(Contains(child)));
  wait_for(child);
}

TEST(DescendantsOf, FindsAProcessWhoseFirstThreadHasLeft) {
  const PidReport report;
  const pid_t child = fork_child([&]() -> int {
    std::thread([] { sleep_for_ever(); }).detach();
    report.send();
    ::syscall(SYS_exit, 0);  // This thread alone; the process goes on.
    return 1;
  });
  ASSERT_EQ(report.receive(), child);
  wait_until_state(child, 'Z');
  EXPECT_THAT(descendants_of(::getpid()), Contains(child));
  ::kill(child, SIGKILL);
  wait_for(child);
}

TEST(KillDescendants, LeavesNothingBehind) {
  EXPECT_EQ(run_in_child([&] {
              become_subreaper();
              const pid_t daemon = start_daemon();
              const pid_t child = fork_child([]() -> int { sleep_for_ever(); });
              const bool gone = kill_descendants(Deadline::in(seconds(30)));
              const bool nothing_left = ::waitpid(-1, nullptr, WNOHANG) == -1;
              return gone && nothing_left && !is_alive(daemon) && !is_alive(child) ? 0 : 1;
            }),
            0);
}

TEST(KillDescendants, SparesOneAndItsExitStatus) {
  EXPECT_EQ(run_in_child([] {
              const Pipe pipe = make_pipe();
              const pid_t spared = fork_child([&] {
                char byte = 0;
                return ::read(pipe.read_end.get(), &byte, 1) == 1 ? 7 : 1;
              });
              const pid_t other = fork_child([]() -> int { sleep_for_ever(); });
              const bool gone = kill_descendants(Deadline::in(seconds(30)), spared);
              write_all(pipe.write_end.get(), "x");
              return gone && !is_alive(other) && WEXITSTATUS(wait_for(spared)) == 7 ? 0 : 1;
            }),
            0);
}

TEST(KillDescendants, WithNoneIsDoneAtOnce) {
  EXPECT_EQ(run_in_child([] { return kill_descendants(Deadline::in(seconds(0))) ? 0 : 1; }), 0);
}

TEST(KillDescendants, OutrunsProcessesThatKeepForking) {
  EXPECT_EQ(run_in_child([] {
              become_subreaper();
              const PidReport report;
              fork_child([&]() -> int {
                for (int forked = 0;; ++forked) {
                  fork_child([&]() -> int { sleep_for_ever(); });
                  if (forked == 5) {
                    report.send();
                  }
                  ::usleep(1000);  // Forks while it is hunted, without filling the process table.
                }
              });
              report.receive();
              return kill_descendants(Deadline::in(seconds(30))) &&
                             descendants_of(::getpid()).empty()
                         ? 0
                         : 1;
            }),
            0);
}

TEST(DieWithParent, TheSignalArrivesWhenTheParentDies) {
  EXPECT_EQ(run_in_child([] {
              become_subreaper();
              const PidReport report;
              const pid_t middle = fork_child([&] {
                const pid_t parent = ::getpid();
                const PidReport ready;
                fork_child([&]() -> int {
                  if (!die_with_parent(SIGUSR1, parent)) {
                    return 1;
                  }
                  report.send();
                  ready.send();
                  sleep_for_ever();
                });
                ready.receive();
                return 0;
              });
              wait_for(middle);
              const int status = wait_for(report.receive());
              return WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1 ? 0 : 1;
            }),
            0);
}

TEST(DieWithParent, IsFalseWhenTheParentIsGoneAlready) {
  EXPECT_EQ(run_in_child([] { return die_with_parent(SIGKILL, ::getpid()) ? 1 : 0; }), 0);
}

TEST(SignalName, IsTheOneKillKnows) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "SIGRTMIN+3");
  EXPECT_EQ(signal_name(99), "signal 99");
}

TEST(SignalNumber, TakesEverySpelling) {
  for (const char* name : {"SIGTERM", "TERM", "sigterm", "term", "15"}) {
    EXPECT_EQ(signal_number(name), SIGTERM) << name;
  }
}

TEST(SignalNumber, KnowsThePythonNamesThatAreSecondOnes) {
  EXPECT_EQ(signal_number("SIGIO"), SIGPOLL);
  EXPECT_EQ(signal_number("SIGIOT"), SIGABRT);
  EXPECT_EQ(signal_number("SIGCLD"), SIGCHLD);
  EXPECT_EQ(signal_number("SIGRTMIN"), SIGRTMIN);
  EXPECT_EQ(signal_number("SIGRTMAX"), SIGRTMAX);
}

TEST(SignalNumber, IsZeroForNoSignal) {
  for (const char* name : {"", "SIG", "SIGFOO", "0", "-1", "99", "15x"}) {
    EXPECT_EQ(signal_number(name), 0) << name;
  }
}

}  // namespace
}  // namespace lockstep
