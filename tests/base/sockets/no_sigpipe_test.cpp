#include "lockstep/base/sockets/no_sigpipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "lockstep/base/fd.h"

namespace lockstep {
namespace {

// What write() says on a connection whose other end is closed; kills a thread that lets it.
int error_of_a_broken_write() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd here(ends[0]);
  UniqueFd(ends[1]).reset();
  return ::write(here.get(), "x", 1) < 0 ? errno : 0;
}

TEST(NoSigpipe, ABrokenConnectionIsAnErrorAndNoSignal) {
  {
    const NoSigpipe no_sigpipe;
    EXPECT_EQ(error_of_a_broken_write(), EPIPE);
  }
  SUCCEED() << "nor does it come afterwards";
}

TEST(NoSigpipe, HoldsForThreadsThatAreStartedMeanwhile) {
  std::thread thread;
  {
    const NoSigpipe no_sigpipe;
    thread = std::thread([] {
      ::usleep(10000);
      EXPECT_EQ(error_of_a_broken_write(), EPIPE);
    });
  }
  thread.join();
}

TEST(NoSigpipeDeathTest, WithoutItTheSignalIsWhatItWas) {
  {
    const NoSigpipe no_sigpipe;
  }
  EXPECT_EXIT(error_of_a_broken_write(), ::testing::KilledBySignal(SIGPIPE), "");
}

// What write() says of a file at `ulimit -f`; kills a thread that lets it.
int error_of_a_file_too_large() {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  const UniqueFd file(::open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_TRUE(file);
  ::setrlimit(RLIMIT_FSIZE, &none);
  const int error = ::write(file.get(), "x", 1) < 0 ? errno : 0;
  ::setrlimit(RLIMIT_FSIZE, &before);
  return error;
}

TEST(NoSigxfsz, AFileTooLargeIsAnErrorAndNoSignal) {
  {
    const NoSigxfsz no_sigxfsz;
    EXPECT_EQ(error_of_a_file_too_large(), EFBIG);
  }
  SUCCEED() << "nor does it come afterwards";
}

TEST(NoSigxfszDeathTest, WithoutItTheSignalIsWhatItWas) {
  {
    const NoSigxfsz no_sigxfsz;
  }
  EXPECT_EXIT(error_of_a_file_too_large(), ::testing::KilledBySignal(SIGXFSZ), "");
}

}  // namespace
}  // namespace lockstep
