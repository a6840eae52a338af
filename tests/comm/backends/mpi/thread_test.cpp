#include "lockstep/comm/backends/mpi/thread.h"

#include <gmock/gmock.h>

#include <atomic>

#include "lockstep/base/error.h"
#include "tests/support/soon.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::soon;
using ::testing::ThrowsMessage;

// A thread that counts how often it polls, instead of asking MPI.
struct Watched {
  ~Watched() { thread.stop(); }
  // Waits for one more poll than there were.
  bool polls() {
    const int before = count;
    for (const auto limit = soon(); count == before && !limit.passed();) {
      std::this_thread::yield();
    }
    return count > before;
  }

  std::timed_mutex calls;
  std::atomic<int> count{0};
  MpiThread thread{calls, [this] { ++count; }};
};

TEST(MpiThread, PollsWhileOperationsAreUnderWayAndNobodyWaits) {
  Watched watched;
  watched.thread.run_alone("a task", [] {}, soon());
  EXPECT_EQ(watched.count, 0);
  watched.thread.watch(1);
  EXPECT_TRUE(watched.polls());
  {
    const MpiThread::Rest rest(watched.thread);
    watched.thread.run_alone("a task", [] {}, soon());  // Once it is here, it polls no more.
    const int then = watched.count;
    watched.thread.run_alone("a task", [] {}, soon());
    EXPECT_EQ(watched.count, then);
  }
  EXPECT_TRUE(watched.polls());
}

TEST(MpiThread, ATaskHasMpiToItselfAndItsErrorReachesTheCaller) {
  Watched watched;
  watched.thread.run_alone(
      "a task", [&] { EXPECT_FALSE(std::async([&] { return watched.calls.try_lock(); }).get()); },
      soon());
  EXPECT_THROW(
      watched.thread.run_alone("a task", [] { throw UsageError("no"); }, soon()), UsageError);
}

TEST(MpiThread, ATaskThatDoesNotEndIsAnErrorAtTheDeadline) {
  Watched watched;
  std::promise<void> go_on;
  auto told = go_on.get_future().share();
  EXPECT_THAT(
      [&] {
        watched.thread.run_alone(
            "something slow", [told] { told.wait(); }, Deadline::in(std::chrono::milliseconds(20)));
      },
      ThrowsMessage<PeerError>(AllOf(HasSubstr("something slow"), HasSubstr("20 ms"))));
  go_on.set_value();
  watched.thread.run_alone("the next", [] {}, soon());
}

}  // namespace
}  // namespace lockstep::comm
