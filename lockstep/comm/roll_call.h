// The ranks of a group that is being formed meet in its store.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::comm {

struct RollEntry {
  int rank = 0;
  int size = 1;
  std::string backend;
  std::string text;  // What the others shall know of this rank.
};

// Names the ranks that did not come.
class AbsentRanks : public PeerError {
 public:
  using PeerError::PeerError;
};

// Throws UsageError, naming both, if the rank that came first asks for another size or backend.
// Waits for nobody. Under an elastic launcher it looks at nothing: its store may be older than this
// group and hold what ranks of an earlier attempt left.
void require_same_as_first(c10d::Store& store, const RollEntry& mine);

[[nodiscard]] std::vector<int> ranks_not_there(c10d::Store& store, int size);

// What the ranks that are there ask for and this one does not, as a sentence; empty if nothing.
[[nodiscard]] std::string differences(c10d::Store& store, const RollEntry& mine);

// The texts of all ranks, once they are there. Whose patience is over warns of who is missing or
// differs. One call per store. Throws AbsentRanks at the timeout, and UsageError as above.
std::vector<std::string> call_roll(c10d::Store& store, const RollEntry& mine,
                                   std::chrono::milliseconds timeout,
                                   std::chrono::milliseconds patience = std::chrono::seconds(10));

// "rank 1" or "ranks 1, 2"; of very many the first.
std::string list_ranks(std::vector<int> ranks);

}  // namespace lockstep::comm
