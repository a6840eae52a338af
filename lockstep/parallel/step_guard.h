// Where this rank is in training, and what its errors say about it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

// What happened on a rank is left for the others in the store under `key`: there it costs nothing
// until something goes wrong, and a rank that knows nothing of it does no harm.
class StepGuard {
 public:
  StepGuard(const Group& group, std::string key);
  // Tells the others after how many steps this rank ended, if it was not the end of a peer that
  // ended it.
  ~StepGuard();
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  [[nodiscard]] const std::string& key() const { return key_; }

  void enter(Phase phase, std::uint64_t step);
  [[nodiscard]] std::uint64_t step() const { return now_.step; }

  // "DistributedDataParallel, backward of step 12 on rank 0 of 2".
  [[nodiscard]] std::string what() const;

  // Runs it. A PeerError, or an error of c10d's, becomes a PeerError that says where this rank was
  // and what the others left. A UsageError says where, too, and is left for them, as is a lack of
  // memory.
  template <class Function>
  auto run(Function&& function) {
    try {
      return std::forward<Function>(function)();
    } catch (const std::exception&) {
      explain();
    }
  }

  // Leaves for the others why this rank cannot go on.
  void fail(const std::string& reason) noexcept;

 private:
  [[noreturn]] void explain();
  [[nodiscard]] std::string with_place(const std::string& text) const;
  void leave_for_others(const std::string& kind, const std::string& text) noexcept;
  [[nodiscard]] std::string left_by_others() noexcept;

  Group group_;
  std::string key_;
  Progress now_;
  bool failed_ = false;
  bool lost_a_peer_ = false;
};

}  // namespace lockstep::parallel
