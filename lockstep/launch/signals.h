// Signals as events: blocked for the process, read from a descriptor, given back to children.
#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::launch {

// While it lives, SIGCHLD and `handled` are blocked and SIGPIPE is ignored in this process. A
// hang-up that was ignored when we started (nohup) stays ignored, by us and by the workers.
class Signals {
 public:
  explicit Signals(const std::vector<int>& handled);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Ready to read when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that has arrived; nothing if there is none.
  [[nodiscard]] std::optional<int> next() const;
  // In a child, before it executes another program: as if this object had never been, and the
  // signals by which we end workers do what they do by default.
  void restore_in_child() const;

 private:
  sigset_t before_{};
  sigset_t watched_{};
  struct sigaction pipe_before_{};
  UniqueFd fd_;
};

}  // namespace lockstep::launch
