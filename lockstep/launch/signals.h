// Signals as events: blocked for the process, read from a descriptor, given back to children.
#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

// Blocks SIGCHLD and `handled` and ignores SIGPIPE, for the rest of this process's life. A signal
// that was ignored when we started (nohup) stays ignored, by us and by the workers.
class Signals {
 public:
  explicit Signals(const std::vector<int>& handled);

  // Ready to read when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that has arrived; nothing if there is none.
  [[nodiscard]] std::optional<int> next() const;
  // In a child, before it executes another program: as if this object had never been.
  void restore_in_child() const;

 private:
  sigset_t before_{};
  sigset_t watched_{};
  struct sigaction pipe_before_{};
  UniqueFd fd_;
};

}  // namespace lockstep::launch
