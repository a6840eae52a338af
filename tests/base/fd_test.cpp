#include "lockstep/base/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/support/child.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItOwns) {
  const Pipe pipe = make_pipe();
  const int number = ::dup(pipe.read_end.get());
  {
    const UniqueFd owner(number);
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, MovingLeavesTheSourceEmpty) {
  Pipe pipe = make_pipe();
  const int number = pipe.read_end.get();
  UniqueFd other = std::move(pipe.read_end);
  EXPECT_FALSE(pipe.read_end);  // NOLINT(bugprone-use-after-move): that it is empty is the claim.
  EXPECT_EQ(other.get(), number);
  EXPECT_EQ(other.release(), number);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(UniqueFd, AssigningClosesTheOldOne) {
  Pipe pipe = make_pipe();
  const int old = pipe.read_end.get();
  pipe.read_end = std::move(pipe.write_end);
  EXPECT_FALSE(is_open(old));
}

TEST(MakePipe, BothEndsCloseOnExec) {
  const Pipe pipe = make_pipe();
  EXPECT_NE(::fcntl(pipe.read_end.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(pipe.write_end.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SetNonblocking, AnEmptyPipeAnswersAtOnce) {
  const Pipe pipe = make_pipe();
  set_nonblocking(pipe.read_end.get());
  char byte = 0;
  EXPECT_EQ(::read(pipe.read_end.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(SetNonblocking, ABadDescriptorIsNamed) {
  EXPECT_THAT([] { set_nonblocking(-1); }, ThrowsMessage<IoError>(HasSubstr("descriptor -1")));
}

TEST(WriteAll, WritesMoreThanAPipeHolds) {
  Pipe pipe = make_pipe();
  const std::string data(1 << 20, 'x');
  std::thread writer([&] {
    EXPECT_TRUE(write_all(pipe.write_end.get(), data));
    pipe.write_end.reset();
  });
  const std::string got = read_file("/proc/self/fd/" + std::to_string(pipe.read_end.get()));
  writer.join();
  EXPECT_EQ(got.size(), data.size());
}

TEST(WriteAll, IsFalseWhenTheReaderIsGone) {
  const int status = test::run_in_child([] {
    ::signal(SIGPIPE, SIG_IGN);
    Pipe pipe = make_pipe();
    pipe.read_end.reset();
    return write_all(pipe.write_end.get(), "x") ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(WriteAll, IsFalseOnAFullDisk) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(write_all(full.get(), "x"));
}

TEST(ReadFile, StopsAtTheLimit) { EXPECT_EQ(read_file("/dev/zero", 20'000).size(), 20'000U); }

TEST(ReadFile, AMissingFileIsNamedWithTheReason) {
  EXPECT_THAT([] { return read_file("/no/such/file"); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("'/no/such/file'"), HasSubstr("No such file or directory"))));
}

}  // namespace
}  // namespace lockstep
