// The ranks of a group as one of them sees them: what they are called, what they were doing, and
// whether they live.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/progress.h"
#include "lockstep/shm/peers/liveness.h"
#include "lockstep/shm/peers/segment_exchange.h"
#include "lockstep/shm/segments/memory.h"

namespace lockstep::shm {

// Thread-safe.
class Roster {
 public:
  Roster(int rank, const Memory& memory, std::vector<Peer> peers);

  [[nodiscard]] std::string who(int rank) const;           // "rank 1 (pid 123 on box)".
  [[nodiscard]] std::string self() const;                  // "rank 0 of 2".
  [[nodiscard]] std::string last_call_of(int rank) const;  // "its last call: all_reduce #3 (...)".
  [[nodiscard]] Progress progress_of(int rank) const;
  // "rank 0 (pid 7 on box) is busy: saving the checkpoint of step 12", if one of them says so and
  // is not stopped.
  [[nodiscard]] std::optional<std::string> saving_among(const std::vector<int>& ranks) const;

  // Finds out who has ended; one system call for all ranks.
  void look() const;
  // As of the last look(): the signal that ended the rank's process, 0 if it ended without a signal
  // or the signal is not known, nothing if it has not ended.
  [[nodiscard]] std::optional<int> ended_by(int rank) const;
  // Takes some microseconds.
  [[nodiscard]] bool is_stopped(int rank) const;

 private:
  [[nodiscard]] const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  int rank_;
  const Memory& memory_;
  std::vector<Peer> peers_;
  std::vector<Liveness::ProcessPointer> processes_;  // By rank.
};

}  // namespace lockstep::shm
