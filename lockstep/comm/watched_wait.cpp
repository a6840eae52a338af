#include "lockstep/comm/watched_wait.h"

#include <stdexcept>

namespace lockstep::comm {

void WatchedWait::wait(c10d::Work& work) const {
  constexpr std::chrono::milliseconds kLook{500};
  bool had_ended = false;
  while (true) {
    try {
      work.wait(kLook);
      return;
    } catch (const std::exception&) {
      if (!work.isCompleted() && had_ended) {
        left_one_behind_ = true;
        throw std::runtime_error("Connection closed by another rank, and Gloo did not notice");
      }
    }
    if (work.isCompleted()) {  // Perhaps just now: what it failed with is told again.
      work.wait();
      return;
    }
    had_ended = has_ended_();
  }
}

}  // namespace lockstep::comm
