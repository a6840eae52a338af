// The launcher's own stdout and stderr, written without ever waiting for a slow reader.
//
// Bytes queue up here while the reader is slow; full() tells producers to pause. If the reader is
// gone, its bytes are dropped and nobody else notices.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::launch {

class Console {
 public:
  // Neither closes `fd` nor changes its flags, because it is shared with other programs.
  explicit Console(int fd);

  void write(std::string_view bytes);
  // Writes a message of the launcher itself, on a line of its own.
  void say(std::string_view text);
  // Sends as much as the reader accepts now.
  void flush();
  // Sends everything. Gives up at the deadline, or if the reader accepts nothing for `patience`.
  void drain(Deadline deadline, std::chrono::milliseconds patience);

  [[nodiscard]] bool pending() const { return !queue_.empty(); }
  [[nodiscard]] bool full() const { return queue_.size() >= kEnough; }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  static constexpr std::size_t kEnough = std::size_t{1} << 20;

  long write_some(std::string_view bytes);

  UniqueFd own_;  // A non-blocking opening of the same pipe or terminal, where that is possible.
  int fd_;
  bool socket_ = false;
  bool may_block_ = false;
  bool gone_ = false;
  bool in_line_ = false;
  std::string queue_;
};

}  // namespace lockstep::launch
