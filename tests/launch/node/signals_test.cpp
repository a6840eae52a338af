#include "lockstep/launch/node/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/launch/job.h"

namespace lockstep::launch {
namespace {

TEST(Signals, ArriveAsValues) {
  EXPECT_EQ(exit_code_of([] {
              const Signals signals({SIGTERM, SIGUSR1});
              ::raise(SIGUSR1);
              ::raise(SIGTERM);
              const bool both = signals.next() == SIGUSR1 && signals.next() == SIGTERM;
              return both && !signals.next() ? 0 : 1;
            }),
            0);
}

TEST(Signals, AnIgnoredHangUpStaysIgnored) {
  EXPECT_EQ(exit_code_of([] {
              ::signal(SIGHUP, SIG_IGN);
              const Signals signals({SIGHUP});
              ::raise(SIGHUP);
              return signals.next() ? 1 : 0;
            }),
            0);
}

TEST(Signals, ABrokenPipeIsNoSignalAnyMore) {
  EXPECT_EQ(exit_code_of([] {
              const Signals signals({});
              ::raise(SIGPIPE);
              return 0;
            }),
            0);
}

TEST(Signals, ChildrenGetThemBack) {
  EXPECT_EQ(exit_code_of([] {
              const Signals signals({SIGTERM});
              signals.restore_in_child();
              ::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
  EXPECT_EQ(exit_code_of([] {
              ::signal(SIGPIPE, SIG_DFL);
              const Signals signals({});
              signals.restore_in_child();
              ::raise(SIGPIPE);
              return 0;
            }),
            128 + SIGPIPE);
}

TEST(Signals, AreAsBeforeWhenTheObjectIsGone) {
  EXPECT_EQ(exit_code_of([] {
              {
                const Signals signals({SIGTERM});
              }
              ::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
}

TEST(Signals, ChildrenCanBeEndedEvenIfWeWereStartedWithSigtermBlocked) {
  EXPECT_EQ(exit_code_of([] {
              sigset_t blocked;
              ::sigemptyset(&blocked);
              ::sigaddset(&blocked, SIGTERM);
              ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
              const Signals signals({});
              signals.restore_in_child();
              ::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
}

TEST(Signals, UserSignalsArriveButEndNoJobUnlessTheyAreHandled) {
  EXPECT_EQ(exit_code_of([] {
              const Signals signals({SIGTERM, SIGUSR2});
              ::raise(SIGUSR1);
              const bool arrived = signals.next() == SIGUSR1;
              return arrived && !signals.ends_job(SIGUSR1) && signals.ends_job(SIGUSR2) &&
                             signals.ends_job(SIGTERM)
                         ? 0
                         : 1;
            }),
            0);
}

TEST(Signals, ChildrenGetUserSignalsAsWeWereStartedWithThem) {
  EXPECT_EQ(exit_code_of([] {
              ::signal(SIGUSR1, SIG_IGN);
              const Signals signals({});
              signals.restore_in_child();
              ::raise(SIGUSR1);
              ::raise(SIGUSR2);
              return 0;
            }),
            128 + SIGUSR2);
}

// Waits in a poll(), as the launcher does. It may return although another thread was faster.
bool arrives(const Signals& signals, int signal) {
  pollfd ready{signals.fd(), POLLIN, 0};
  while (::poll(&ready, 1, 10'000) == 1) {
    if (const auto arrived = signals.next()) {
      return arrived == signal;
    }
  }
  return false;
}

// Whether all that are sent to this process do.
bool all_arrive(const Signals& signals) {
  for (int i = 0; i < 1000; ++i) {
    for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1}) {
      ::kill(::getpid(), signal);
      if (!arrives(signals, signal)) {
        return false;
      }
    }
  }
  return true;
}

// A thread of a library, which blocks no signal and waits for its end.
class OtherThread {
 public:
  OtherThread() {
    std::atomic<bool> begun = false;
    thread_ = std::thread([&] {
      sigset_t none;
      ::sigemptyset(&none);
      ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
      begun = true;
      while (!ends_) {
        ::poll(nullptr, 0, 10);  // ThreadSanitizer runs handlers there, and not in every wait.
      }
    });
    while (!begun) {
      std::this_thread::yield();
    }
  }
  OtherThread(const OtherThread&) = delete;
  OtherThread& operator=(const OtherThread&) = delete;
  ~OtherThread() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// The kernel gives a signal to whichever thread does not block it.
TEST(Signals, AThreadThatWasThereBeforeTakesNone) {
  EXPECT_EQ(exit_code_of([] {
              const OtherThread other;
              const Signals signals({SIGTERM});
              return all_arrive(signals) ? 0 : 1;
            }),
            0);
}

TEST(Signals, AThreadOfAForkTakesNone) {
  const Signals signals({SIGTERM});
  EXPECT_EQ(exit_code_of([&] {
              const OtherThread other;
              return all_arrive(signals) ? 0 : 1;
            }),
            0);
}

TEST(EchoFilter, TheSecondPathOfOneSignalIsAnEcho) {
  for (const auto first : {SignalPath::kOwn, SignalPath::kSupervisor}) {
    const auto second = first == SignalPath::kOwn ? SignalPath::kSupervisor : SignalPath::kOwn;
    EchoFilter filter;
    EXPECT_FALSE(filter.is_echo(SIGTERM, first));
    EXPECT_TRUE(filter.is_echo(SIGTERM, second));
    EXPECT_FALSE(filter.is_echo(SIGTERM, second)) << "an echo comes once";
    EXPECT_TRUE(filter.is_echo(SIGTERM, first)) << "the second signal may come in either order";
  }
}

TEST(EchoFilter, EqualSignalsByOnePathAreTwo) {
  EchoFilter filter;
  EXPECT_FALSE(filter.is_echo(SIGINT, SignalPath::kSupervisor));
  EXPECT_FALSE(filter.is_echo(SIGINT, SignalPath::kSupervisor));
}

TEST(EchoFilter, OtherSignalsAndLateOnesAreNoEchoes) {
  EchoFilter filter;
  const auto now = Deadline::Clock::now();
  EXPECT_FALSE(filter.is_echo(SIGINT, SignalPath::kSupervisor, now));
  EXPECT_FALSE(filter.is_echo(SIGTERM, SignalPath::kOwn, now));
  EXPECT_FALSE(filter.is_echo(SIGINT, SignalPath::kOwn, now + std::chrono::minutes(1)));
}

}  // namespace
}  // namespace lockstep::launch
