#include "lockstep/launch/node/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace lockstep::launch {

Console::Console(int fd) : fd_(fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    gone_ = true;
  } else if (S_ISSOCK(info.st_mode)) {
    socket_ = true;
  } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
    // O_NONBLOCK belongs to the opening, not to the descriptor: setting it on `fd` would
    // reach the shell and the workers. A second opening is ours alone.
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    may_block_ = !own_;
    fd_ = own_ ? own_.get() : fd;
  }
}

long Console::write_some(std::string_view bytes) {
  if (socket_) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (may_block_) {
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    bytes = bytes.substr(0, PIPE_BUF);  // So much fits for sure if there is room at all.
  }
  return ::write(fd_, bytes.data(), bytes.size());
}

void Console::write(std::string_view bytes) {
  if (!gone_ && !bytes.empty()) {
    in_line_ = bytes.back() != '\n';
    queue_ += bytes;
    flush();
  }
}

void Console::say(std::string_view text) {
  if (!text.empty()) {
    write(in_line_ ? "\n" : "");
    write(text);
  }
}

void Console::flush() {
  std::size_t sent = 0;
  while (!gone_ && sent < queue_.size()) {
    const long written = write_some(std::string_view(queue_).substr(sent));
    if (written > 0) {
      sent += static_cast<std::size_t>(written);
    } else if (written < 0 && errno == EAGAIN) {
      break;
    } else if (written < 0 && errno != EINTR) {
      gone_ = true;
    }
  }
  queue_.erase(0, gone_ ? std::string::npos : sent);
}

void Console::drain(Deadline deadline, std::chrono::milliseconds patience) {
  flush();
  Deadline stuck = Deadline::in(patience);
  while (pending() && !deadline.passed() && !stuck.passed()) {
    pollfd ready{fd_, POLLOUT, 0};
    ::poll(&ready, 1, std::min(stuck.poll_timeout(), 100));
    const std::size_t before = queue_.size();
    flush();
    if (queue_.size() < before) {
      stuck = Deadline::in(patience);
    }
  }
}

}  // namespace lockstep::launch
