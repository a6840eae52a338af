// Tells the other ranks that this one is busy with a checkpoint, while it lives.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/comm/group.h"

namespace lockstep::train {

// The disk may take longer than the timeout of collectives. Ranks that wait for this one in the
// group wait on, and their notices and errors say what it does. Saving must end in a time of its
// own. Where the backend cannot tell (Group::report) the note does nothing.
class SavingNote {
 public:
  SavingNote(Group group, std::int64_t step)
      : group_(std::move(group)), before_(group_.progress_of(group_.rank())) {
    group_.report({.phase = Phase::kSaving, .step = static_cast<std::uint64_t>(step)});
  }
  ~SavingNote() { group_.report(before_.value_or(lockstep::Progress())); }
  SavingNote(const SavingNote&) = delete;
  SavingNote& operator=(const SavingNote&) = delete;

 private:
  Group group_;
  std::optional<lockstep::Progress> before_;  // Not the progress line's.
};

}  // namespace lockstep::train
