// How well the network does on data that it does not learn from.
#pragma once

#include <cstdint>

#include "lockstep/comm/group.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/train/loop/learner.h"

namespace lockstep::train {

// Every sample of the loader's data set exactly once over all ranks, if its sampler is an
// EvaluationSampler; of at most `batches` batches of each rank, if that is not 0. The network has
// rank 0's buffers, and the averages of its weights if the learner keeps such. All ranks call it.
Scores validate(Learner& learner, data::DataLoader& loader, const Group& group,
                std::int64_t batches = 0);

}  // namespace lockstep::train
