// File descriptors with one owner, and whole reads and writes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset(std::exchange(other.fd_, -1));
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Both ends close on exec. Throws IoError when the process is out of descriptors.
Pipe make_pipe();

// Throws IoError with `what` and the reason.
[[noreturn]] void throw_errno(std::string_view what);

void set_nonblocking(int fd);

// Writes everything, through EINTR and short writes, to a blocking descriptor. False, with errno,
// if the disk is full or, where SIGPIPE is ignored, the reader is gone.
bool write_all(int fd, std::string_view data);

// Reads to the end of the file, at most `limit` bytes. Throws IoError naming the path.
std::string read_file(const std::string& path, std::size_t limit = std::size_t{64} << 20);

}  // namespace lockstep
