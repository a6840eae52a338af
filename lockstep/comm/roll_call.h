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
  std::string backend;  // By the name that the user gave it.
  std::string text;     // What the others shall know of this rank.
};

// Names the ranks that did not come.
class AbsentRanks : public PeerError {
 public:
  using PeerError::PeerError;
};

// Throws UsageError, naming both, if the rank that asked first was started for a group of another
// size or with another backend. Waits for nobody.
void require_same_as_first(c10d::Store& store, const RollEntry& mine);

// The texts of all ranks, once they are there; after ten seconds a warning says who is not. One
// call per store. Throws AbsentRanks at the timeout, and UsageError as above.
std::vector<std::string> call_roll(c10d::Store& store, const RollEntry& mine,
                                   std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
