// A collective that was started and may still run.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace c10d {
class Work;
}

namespace lockstep {

// A handle: copies refer to the same work. Do not use the tensors of a call until wait() returns.
// wait() also writes back results that the backend does not produce itself (an integer average,
// gathered tensors of unequal sizes).
class [[nodiscard]] Work {
 public:
  // Blocks until the work is done; a second call returns at once. Throws PeerError,
  // naming the collective and this rank, if a peer is gone or late.
  void wait();

  [[nodiscard]] bool is_completed() const;

  // For c10d users; null for a work that was finished when it was started. Its future may be done
  // before wait() has written results back; of several parts it is the last.
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> c10d_work() const;

 private:
  friend class Group;
  struct State;

  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace lockstep
