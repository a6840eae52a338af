#include "lockstep/comm/backends/hosts/gloo_wait.h"

#include <algorithm>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/library_errors.h"

namespace lockstep::comm {

void GlooWait::wait(c10d::Work& work) const {
  constexpr std::chrono::milliseconds kLook{500};
  bool had_ended = false;
  while (true) {
    try {
      work.wait(kLook);
      return;
    } catch (const std::exception&) {
      if (!work.isCompleted() && had_ended) {
        left_one_behind_ = true;
        throw ConnectionLost("Connection closed by another rank, and Gloo did not notice");
      }
    }
    if (work.isCompleted()) {  // Perhaps just now; wait() throws if it failed.
      work.wait();
      return;
    }
    had_ended = has_ended_();
  }
}

c10::intrusive_ptr<c10d::Work> GlooWait::remember(c10::intrusive_ptr<c10d::Work> work) const {
  const std::lock_guard lock(mutex_);
  std::erase_if(remembered_, [](const auto& old) { return old->isCompleted(); });
  remembered_.push_back(work);
  return work;
}

bool GlooWait::left_one_behind(std::chrono::milliseconds patience) const {
  const auto deadline = Deadline::in(patience);
  const std::lock_guard lock(mutex_);
  const auto all_done = [this] {
    return std::all_of(remembered_.begin(), remembered_.end(),
                       [](const auto& work) { return work->isCompleted(); });
  };
  while (!all_done() && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return left_one_behind_ || !all_done();
}

}  // namespace lockstep::comm
