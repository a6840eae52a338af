// The reducer's options as they follow from those of DistributedDataParallel.
#pragma once

#include "lockstep/comm/group.h"
#include "lockstep/parallel/reducer.h"
#include "lockstep/parallel/replica.h"

namespace lockstep::parallel {

// Throws UsageError for bucket caps that cannot be.
ReducerOptions reducer_options(const DistributedDataParallelOptions& options, const Group& group);

}  // namespace lockstep::parallel
