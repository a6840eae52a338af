// Waiting for a work of Gloo that may never end.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

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

  // Remembers a work, which it returns, until it is done: an error may keep everybody from waiting
  // for it.
  c10::intrusive_ptr<c10d::Work> remember(c10::intrusive_ptr<c10d::Work> work) const;

  // Whether one that was waited for or remembered is still not done after this time: its group
  // cannot be destroyed before that work's timeout.
  [[nodiscard]] bool left_one_behind(std::chrono::milliseconds patience) const;

 private:
  std::function<bool()> has_ended_;
  mutable std::atomic<bool> left_one_behind_{false};
  mutable std::mutex mutex_;
  mutable std::vector<c10::intrusive_ptr<c10d::Work>> remembered_;
};

}  // namespace lockstep::comm
