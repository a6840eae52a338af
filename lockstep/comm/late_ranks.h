// Which ranks are behind, by what all told Group::report().
#pragma once

#include <string>

#include "lockstep/comm/progress_board.h"

namespace lockstep::comm {

// "; behind this rank, which is in backward of step 13: rank 1 (past step 11)". Empty if this
// rank has told nothing.
std::string text_of_late_ranks(const ProgressBoard& board, int rank, int size);

// While one lives, the crash report of a rank whose collective on a GPU timed out has this text of
// the group: LibTorch's watchdog, which ends the process, names the rank that waited and no other.
class LateRanksInCrashReport {
 public:
  // Refers to the board. `group` is the group's name, if it has one.
  LateRanksInCrashReport(const ProgressBoard& board, int rank, int size, std::string group);
  LateRanksInCrashReport(const LateRanksInCrashReport&) = delete;
  LateRanksInCrashReport& operator=(const LateRanksInCrashReport&) = delete;
  ~LateRanksInCrashReport();

  // Empty, or the text with the group's name.
  [[nodiscard]] std::string text() const;

 private:
  const ProgressBoard& board_;
  int rank_;
  int size_;
  std::string group_;
};

}  // namespace lockstep::comm
