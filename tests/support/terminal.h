// A pseudo-terminal for tests of what programs show.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::test {

// What a program writes to it can be read at the other side.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_TRUE(master_ && ::grantpt(master_.get()) == 0 && ::unlockpt(master_.get()) == 0);
    slave_.reset(::open(::ptsname(master_.get()), O_RDWR | O_NOCTTY));
    EXPECT_TRUE(slave_);
    resize(columns);
  }

  void resize(unsigned short columns) const {
    const winsize size{24, columns, 0, 0};
    EXPECT_EQ(::ioctl(slave_.get(), TIOCSWINSZ, &size), 0);
  }
  [[nodiscard]] int fd() const { return slave_.get(); }
  void close() { master_.reset(); }

  // What was written until now. The terminal makes "\r\n" of line ends.
  [[nodiscard]] std::string read() const {
    std::string text;
    pollfd ready{master_.get(), POLLIN, 0};
    while (::poll(&ready, 1, 50) == 1) {
      char block[4096];
      const ssize_t got = ::read(master_.get(), block, sizeof block);
      if (got <= 0) {
        break;
      }
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  UniqueFd master_;
  UniqueFd slave_;
};

}  // namespace lockstep::test
