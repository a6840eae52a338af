#include "lockstep/base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = fd;
}

void throw_errno(std::string_view what) {
  const int error = errno;
  throw IoError(std::string(what) + ": " + std::generic_category().message(error));
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw_errno("opening a pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw_errno("making descriptor " + std::to_string(fd) + " non-blocking");
  }
}

bool write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return false;
    }
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string read_file(const std::string& path, std::size_t limit) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    throw_errno("opening '" + path + "'");
  }
  std::string content;
  char block[16384];
  while (content.size() < limit) {
    const ssize_t got = ::read(file.get(), block, std::min(sizeof block, limit - content.size()));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno("reading '" + path + "'");
    }
    if (got == 0) {
      break;
    }
    content.append(block, static_cast<std::size_t>(got));
  }
  return content;
}

}  // namespace lockstep
