// What ranks tell each other through the store while a group is being formed.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::comm {

struct RankInfo {
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

// Throws UsageError if the rank that came first asks for another size or backend; the message names
// both ranks. Does not wait. Under an elastic launcher it does nothing: the launcher's store may be
// older than this group and hold what ranks of an earlier attempt left.
void require_same_as_first(c10d::Store& store, const RankInfo& mine);

[[nodiscard]] bool are_all_there(c10d::Store& store, int size);
[[nodiscard]] std::vector<int> ranks_not_there(c10d::Store& store, int size);

// How the other ranks that have joined differ from this one, as a sentence; empty if they do not.
[[nodiscard]] std::string differences(c10d::Store& store, const RankInfo& mine);

// Waits for all ranks and returns their texts. After `patience`, warns which ranks are missing or
// differ. May be called once per store. Throws AbsentRanks at the timeout, and UsageError as above.
std::vector<std::string> gather_rank_infos(
    c10d::Store& store, const RankInfo& mine, std::chrono::milliseconds timeout,
    std::chrono::milliseconds patience = std::chrono::seconds(10));

// "rank 1" or "ranks 1, 2"; only the first ones if there are very many.
std::string list_ranks(std::vector<int> ranks);

}  // namespace lockstep::comm
