#include "lockstep/launch/signals.h"

#include <gtest/gtest.h>

#include "job.h"

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

}  // namespace
}  // namespace lockstep::launch
