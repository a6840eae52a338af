// Reads the checkpoint that a run goes on from on rank 0 and sends it to all ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/checkpoint/checkpoint.h"

namespace lockstep::train {

// Rank 0 reads `path`, a file or a folder of checkpoints, and sends it to the others, whose `path`
// means nothing. Nothing if rank 0 has an empty path. All ranks call it. What rank 0 throws all
// ranks throw.
std::optional<LoadedCheckpoint> load_on_all_ranks(const Group& group, const std::string& path);

// Calls `work` on rank 0 and returns what it returns on all ranks; what it throws all ranks throw.
std::string on_rank_0(const Group& group, const std::function<std::string()>& work);

}  // namespace lockstep::train
