// Waiting for a work of Gloo that may never end.
#pragma once

#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep::comm {

// Gloo forgets a send that begins while its connection breaks: the work then sleeps until its
// timeout, whatever happens to the connection. So whoever waits looks every half second whether
// the group has ended meanwhile.
class WatchedWait {
 public:
  explicit WatchedWait(std::function<bool()> has_ended) : has_ended_(std::move(has_ended)) {}

  // For a collective, until it is done. Throws what it failed with, or std::runtime_error if the
  // group has ended and the work has not, half a second later.
  void wait(c10d::Work& work) const;

  // Whether a work was left behind: its group cannot be destroyed before that work's timeout.
  [[nodiscard]] bool left_one_behind() const { return left_one_behind_; }

 private:
  std::function<bool()> has_ended_;
  mutable std::atomic<bool> left_one_behind_{false};
};

}  // namespace lockstep::comm
