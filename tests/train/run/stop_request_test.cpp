#include "lockstep/train/run/stop_request.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/process/stop_notice.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "tests/support/child.h"

namespace lockstep::train {
namespace {

int code_of(int status) { return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status); }

// From this process and, in a child of these tests, not from its parent.
void signal_self(int number) { ::kill(::getpid(), number); }

class StopRequestSignals : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(StopRequestSignals, TheFirstSetsAFlagWithItsExitCode) {
  const auto [number, code] = GetParam();
  const int status = test::run_in_child([number = number] {
    const StopRequest stop;
    if (StopRequest::is_requested() || StopRequest::exit_code(StopRequest::signal()) != 0) {
      return 1;
    }
    signal_self(number);
    return StopRequest::is_requested() ? StopRequest::exit_code(StopRequest::signal()) : 2;
  });
  EXPECT_EQ(code_of(status), code);
}

INSTANTIATE_TEST_SUITE_P(All, StopRequestSignals,
                         ::testing::Values(std::pair(SIGINT, 130), std::pair(SIGTERM, 143),
                                           std::pair(SIGUSR1, 75), std::pair(SIGHUP, 129)));

TEST(StopRequest, TheSecondEndsTheProcessAtOnce) {
  for (const auto& [first, second, code] : {std::tuple(SIGINT, SIGINT, 130),
                                            {SIGINT, SIGTERM, 143},
                                            {SIGUSR1, SIGUSR1, 138},
                                            {SIGHUP, SIGINT, 130}}) {
    const int status = test::run_in_child([first = first, second = second] {
      const StopRequest stop;
      signal_self(first);
      signal_self(second);
      return 0;
    });
    EXPECT_EQ(code_of(status), code) << first << ", " << second;
  }
}

TEST(StopRequest, ANoticeThatCameBeforeItIsHeldBackAndCounts) {
  const int status = test::run_in_child([] {
    hold_back_stop_notice();
    signal_self(SIGUSR1);
    const StopRequest stop;
    return StopRequest::exit_code(StopRequest::signal());
  });
  EXPECT_EQ(code_of(status), 75);
}

TEST(StopRequest, ANoticeAfterItsEndIsHeldBackAgain) {
  const int status = test::run_in_child([] {
    hold_back_stop_notice();
    std::atomic<bool> is_over{false};
    std::thread started_meanwhile;  // As LibTorch's, which live on.
    {
      const StopRequest stop;
      started_meanwhile = std::thread([&] {
        while (!is_over) {
          ::usleep(1000);
        }
      });
    }
    signal_self(SIGUSR1);
    is_over = true;
    started_meanwhile.join();
    const StopRequest next;
    signal_self(SIGUSR1);
    return StopRequest::is_requested() ? 0 : 1;
  });
  EXPECT_EQ(code_of(status), 0);
}

TEST(StopRequest, ASecondHangUpDoesNotEndTheProcess) {
  const int status = test::run_in_child([] {
    const StopRequest stop;
    signal_self(SIGTERM);
    signal_self(SIGHUP);
    signal_self(SIGHUP);
    return StopRequest::signal() == SIGTERM ? 0 : 1;
  });
  EXPECT_EQ(code_of(status), 0);
}

// Starts `body` in a child, and sends it a signal as its parent when it says that it waits for one.
int with_signal_of_the_parent(int number,
                              const std::function<int(const std::function<void()>&)>& body) {
  Pipe waiting = make_pipe();
  Pipe sent = make_pipe();
  const pid_t child = test::fork_child([&] {
    sent.write_end.reset();
    return body([&] {
      char c = 'w';
      write_all(waiting.write_end.get(), "w");
      (void)!::read(sent.read_end.get(), &c, 1);
    });
  });
  waiting.write_end.reset();
  sent.read_end.reset();
  const NoSigpipe no_sigpipe;  // The signal may end the child before it reads.
  char c = 0;
  while (::read(waiting.read_end.get(), &c, 1) == 1) {
    ::kill(child, number);
    write_all(sent.write_end.get(), "s");
  }
  return code_of(test::wait_for(child));
}

TEST(StopRequest, ASignalOfTheSchedulerThatTheLauncherPassesOnCountsOnce) {
  const int code = with_signal_of_the_parent(SIGTERM, [](const auto& wait_for_parent) {
    const StopRequest stop;
    signal_self(SIGTERM);
    wait_for_parent();
    return StopRequest::exit_code(StopRequest::signal());
  });
  EXPECT_EQ(code, 143);
  const int other_order = with_signal_of_the_parent(SIGTERM, [](const auto& wait_for_parent) {
    const StopRequest stop;
    wait_for_parent();
    signal_self(SIGTERM);
    return 7;
  });
  EXPECT_EQ(other_order, 7);
}

TEST(StopRequest, OnlyOneEchoIsForgiven) {
  const int code = with_signal_of_the_parent(SIGTERM, [](const auto& wait_for_parent) {
    const StopRequest stop;
    signal_self(SIGTERM);
    wait_for_parent();
    wait_for_parent();
    return 7;
  });
  EXPECT_EQ(code, 143);
  const int twice_from_the_parent = with_signal_of_the_parent(SIGINT, [](const auto& wait) {
    const StopRequest stop;
    wait();
    wait();
    return 7;
  });
  EXPECT_EQ(twice_from_the_parent, 130);
}

TEST(StopRequest, AnotherSignalOfTheParentIsNoEcho) {
  const int code = with_signal_of_the_parent(SIGTERM, [](const auto& wait_for_parent) {
    const StopRequest stop;
    signal_self(SIGINT);
    wait_for_parent();
    return 7;
  });
  EXPECT_EQ(code, 143);
}

int caught_by_old_handler = 0;

TEST(StopRequest, HandlersFromBeforeAreRestored) {
  const int status = test::run_in_child([] {
    ::signal(SIGUSR1, [](int) { caught_by_old_handler += 1; });
    {
      const StopRequest stop;
      signal_self(SIGUSR1);
    }
    if (caught_by_old_handler != 0 || StopRequest::is_requested()) {
      return 1;
    }
    signal_self(SIGUSR1);
    if (caught_by_old_handler != 1) {
      return 2;
    }
    signal_self(SIGTERM);
    return 3;
  });
  EXPECT_EQ(code_of(status), -SIGTERM);
}

TEST(StopRequest, WhatWasIgnoredStaysIgnored) {
  const int status = test::run_in_child([] {
    ::signal(SIGHUP, SIG_IGN);
    const StopRequest stop;
    signal_self(SIGHUP);
    return StopRequest::is_requested() ? 1 : 0;
  });
  EXPECT_EQ(code_of(status), 0);
}

TEST(StopRequest, IsOneAtATime) {
  const int status = test::run_in_child([] {
    {
      const StopRequest stop;
      try {
        const StopRequest second;
        return 1;
      } catch (const UsageError&) {
      }
    }
    const StopRequest again;
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
}

TEST(StopRequest, DoesNotInterruptSystemCalls) {
  Pipe pipe = make_pipe();
  const pid_t child = test::fork_child([&] {
    const StopRequest stop;
    std::thread sender([&, main = ::pthread_self()] {
      ::usleep(20'000);
      ::pthread_kill(main, SIGINT);
      ::usleep(20'000);
      write_all(pipe.write_end.get(), "x");
    });
    char c = 0;
    const bool well = ::read(pipe.read_end.get(), &c, 1) == 1;
    sender.join();
    return well && StopRequest::is_requested() ? 0 : 1;
  });
  EXPECT_EQ(code_of(test::wait_for(child)), 0);
}

}  // namespace
}  // namespace lockstep::train
