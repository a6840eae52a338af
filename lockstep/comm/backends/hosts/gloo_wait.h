// Waiting for a work of Gloo that may never end.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace lockstep::comm {

// Gloo forgets a send that begins while its connection breaks: the work then sleeps until its
// timeout, whatever happens to the connection. So a waiting thread checks every half second whether
// the group has ended.
class GlooWait {
 public:
  explicit GlooWait(std::function<bool()> has_ended) : has_ended_(std::move(has_ended)) {}

  // Waits until a collective is done. Throws its error, or ConnectionLost if the work is not
  // done half a second after the group has ended.
  void wait(c10d::Work& work) const;

  [[nodiscard]] bool has_ended() const { return has_ended_(); }

  // Remembers a work, which it returns, until it is done: an error may keep everybody from waiting
  // for it.
  c10::intrusive_ptr<c10d::Work> remember(c10::intrusive_ptr<c10d::Work> work) const;

  // Whether a work that was waited for or remembered is still not done after this time. Its group
  // cannot be destroyed before the work's timeout.
  [[nodiscard]] bool left_one_behind(std::chrono::milliseconds patience) const;

 private:
  std::function<bool()> has_ended_;
  mutable std::atomic<bool> left_one_behind_{false};
  mutable std::mutex mutex_;
  mutable std::vector<c10::intrusive_ptr<c10d::Work>> remembered_;
};

}  // namespace lockstep::comm
