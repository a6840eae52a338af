#include "lockstep/launch/event_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/fd.h"

namespace lockstep::launch {
namespace {

const auto kSoon = std::chrono::milliseconds(5);

TEST(EventLoop, RunsTheHandlerOfWhatIsReady) {
  EventLoop loop;
  const Pipe ready = make_pipe();
  const Pipe quiet = make_pipe();
  int runs = 0;
  loop.watch(ready.read_end.get(), POLLIN, [&] { ++runs; });
  loop.watch(quiet.read_end.get(), POLLIN, [] { FAIL(); });
  write_all(ready.write_end.get(), "x");
  loop.run_once(Deadline::in(std::chrono::hours(1)));
  EXPECT_EQ(runs, 1);
}

TEST(EventLoop, AHangUpIsAnEvent) {
  EventLoop loop;
  Pipe pipe = make_pipe();
  bool ran = false;
  loop.watch(pipe.read_end.get(), POLLIN, [&] { ran = true; });
  pipe.write_end.reset();
  loop.run_once(Deadline::in(std::chrono::hours(1)));
  EXPECT_TRUE(ran);
}

TEST(EventLoop, ReturnsAtTheDeadline) {
  EventLoop loop;
  const Deadline deadline = Deadline::in(kSoon);
  loop.run_once(deadline);
  EXPECT_TRUE(deadline.passed());
}

TEST(EventLoop, AHandlerMayForgetOthersAndItself) {
  EventLoop loop;
  const Pipe first = make_pipe();
  const Pipe second = make_pipe();
  write_all(first.write_end.get(), "x");
  write_all(second.write_end.get(), "x");
  int runs = 0;
  const auto forget_both = [&] {
    ++runs;
    loop.forget(first.read_end.get());
    loop.forget(second.read_end.get());
  };
  loop.watch(first.read_end.get(), POLLIN, forget_both);
  loop.watch(second.read_end.get(), POLLIN, forget_both);
  loop.run_once(Deadline::in(kSoon));
  loop.run_once(Deadline::in(kSoon));
  EXPECT_EQ(runs, 1);
}

TEST(EventLoop, ANewWatchDoesNotInheritAnOldEvent) {
  EventLoop loop;
  const Pipe first = make_pipe();
  Pipe second = make_pipe();
  write_all(first.write_end.get(), "x");
  write_all(second.write_end.get(), "x");
  const Pipe quiet = make_pipe();
  loop.watch(second.read_end.get(), POLLIN, [] { FAIL() << "this pipe was replaced"; });
  loop.watch(first.read_end.get(), POLLIN, [&] {
    loop.forget(first.read_end.get());
    const int number = second.read_end.get();
    ::dup2(quiet.read_end.get(), number);
    loop.watch(number, POLLIN, [] { FAIL() << "nothing has happened on this one"; });
  });
  ASSERT_LT(first.read_end.get(), second.read_end.get());
  loop.run_once(Deadline::in(kSoon));
  loop.run_once(Deadline::in(kSoon));
}

}  // namespace
}  // namespace lockstep::launch
