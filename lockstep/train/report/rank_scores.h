// Each rank's part of the scores, so that a run that goes on adds them to the same bits.
#pragma once

#include <vector>

#include "lockstep/checkpoint/value.h"
#include "lockstep/comm/group.h"
#include "lockstep/train/report/tally.h"

namespace lockstep::train {

struct RankScores {
  Tally::Sums epoch{};     // This epoch up to the last line of the log,
  Tally::Sums interval{};  // and since then.

  bool operator==(const RankScores&) const = default;
};

// Returns the scores of all ranks, in their order, on every rank. All of them call it.
std::vector<RankScores> gather(const Group& group, const RankScores& scores);

checkpoint::Value to_value(const std::vector<RankScores>& ranks);
// Throws IoError if it is no such list.
std::vector<RankScores> rank_scores_from(const checkpoint::Value& value);

// The scores that a rank resumes with: its own if there are as many ranks as before; otherwise rank
// 0 gets the sum of all and the others get none.
RankScores share_of(const std::vector<RankScores>& ranks, int rank, int world_size);

}  // namespace lockstep::train
