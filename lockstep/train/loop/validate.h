// How well the network does on data that it does not learn from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/comm/group.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/train/loop/learner.h"

namespace lockstep::train {

struct ValidateOptions {
  std::int64_t batches = 0;  // At most, per rank; 0: all.
  // Asked before each batch, by all ranks equally often; they must be told the same.
  std::function<bool()> is_stopped = {};
};

// Every sample of the loader's data set exactly once over all ranks, if its sampler is an
// EvaluationSampler. The network has rank 0's buffers, and the averages of its weights if the
// learner keeps such. Nothing if it was stopped. All ranks call it.
std::optional<Scores> validate(Learner& learner, data::DataLoader& loader, const Group& group,
                               const ValidateOptions& options = {});

}  // namespace lockstep::train
