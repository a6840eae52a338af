#include "lockstep/launch/node/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "tests/launch/job.h"

namespace lockstep::launch {
namespace {

std::string read_some(int fd) {
  std::string text(1 << 20, '\0');
  const ssize_t got = ::read(fd, text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

TEST(Console, WritesAtOnceWhenTheReaderIsReady) {
  const Pipe pipe = make_pipe();
  Console console(pipe.write_end.get());
  console.write("hello");
  EXPECT_FALSE(console.pending());
  EXPECT_EQ(read_some(pipe.read_end.get()), "hello");
}

TEST(Console, SpeaksOnALineOfItsOwn) {
  const Pipe pipe = make_pipe();
  Console console(pipe.write_end.get());
  console.say("first\n");
  console.write("half a line");
  console.say("second\n");
  console.say("third\n");
  EXPECT_EQ(read_some(pipe.read_end.get()), "first\nhalf a line\nsecond\nthird\n");
}

TEST(Console, QueuesForASlowReaderAndLosesNothing) {
  const Pipe pipe = make_pipe();
  Console console(pipe.write_end.get());
  const std::string much(3 << 20, 'x');
  console.write(much);
  EXPECT_TRUE(console.pending());
  EXPECT_TRUE(console.full());
  std::size_t got = 0;
  while (console.pending() || got < much.size()) {
    got += read_some(pipe.read_end.get()).size();
    console.flush();
  }
  EXPECT_EQ(got, much.size());
}

TEST(Console, LeavesTheSharedDescriptorBlocking) {
  const Pipe pipe = make_pipe();
  const Console console(pipe.write_end.get());
  EXPECT_EQ(::fcntl(pipe.write_end.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Console, GivesUpOnAReaderThatReadsNothing) {
  const Pipe pipe = make_pipe();
  Console console(pipe.write_end.get());
  console.write(std::string(1 << 20, 'x'));
  console.drain(Deadline::in(std::chrono::hours(1)), std::chrono::milliseconds(20));
  EXPECT_TRUE(console.pending());
}

TEST(Console, AReaderThatIsGoneDoesNoHarm) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe = make_pipe();
  Console console(pipe.write_end.get());
  pipe.read_end.reset();
  console.write("x");
  console.write("y");
  EXPECT_FALSE(console.pending());
  Console closed(987);
  closed.write("x");
  EXPECT_FALSE(closed.pending());
}

TEST(Console, AFullDiskDoesNoHarm) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Console console(full.get());
  console.write("x");
  EXPECT_FALSE(console.pending());
}

TEST(Console, ASocketIsNotWaitedForEither) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  Console console(ours.get());
  console.write(std::string(8 << 20, 'x'));
  EXPECT_TRUE(console.pending());
}

}  // namespace
}  // namespace lockstep::launch
