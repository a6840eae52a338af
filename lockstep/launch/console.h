// The launcher's own stdout and stderr, written without ever waiting for a slow reader.
//
// Bytes queue up here while the reader is slow; full() tells producers to pause. A reader that is
// gone loses its bytes and nobody else notices.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::launch {

class Console {
 public:
  // `fd` stays open and its flags stay as they are: it is shared with other programs.
  explicit Console(int fd);

  void write(std::string_view bytes);
  // Words of the launcher itself: they begin on a line of their own.
  void say(std::string_view text);
  // Sends what the reader takes now.
  void flush();
  // Sends everything, or gives up at the deadline or when the reader takes nothing for `patience`.
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
