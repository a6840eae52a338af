// Where this rank is in training, and what its errors say about it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

// Each rank leaves in the store, under `key`, what happened to it. This costs nothing until
// something goes wrong. Ranks that leave nothing (Python's) do no harm.
class StepErrors {
 public:
  StepErrors(const Group& group, std::string key);
  // Tells the others after how many steps this rank ended, unless it ended because of a peer.
  ~StepErrors();
  StepErrors(const StepErrors&) = delete;
  StepErrors& operator=(const StepErrors&) = delete;

  [[nodiscard]] const std::string& key() const { return key_; }

  void enter(Phase phase, std::uint64_t step);
  [[nodiscard]] std::uint64_t step() const { return now_.step; }

  // "DistributedDataParallel, backward of step 12 on rank 0 of 2".
  [[nodiscard]] std::string what() const;

  // Runs the function. A PeerError, or an error of c10d's, becomes a PeerError that says where this
  // rank was and what the others left. A UsageError also says where this rank was, and is left for
  // the others, as is a lack of memory. What a communication hook threw is left for them, too, and
  // comes out as it is.
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
  std::exception_ptr from_hook_;  // Calls may be nested: it passes the outer ones.
};

}  // namespace lockstep::parallel
