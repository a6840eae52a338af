// Ranks that train together must be told the same.
#pragma once

#include <cstdint>

#include "lockstep/comm/group.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// This program and the LibTorch that it has loaded, for comparisons.
Settings program_of_this_rank();

// All that must be the same on all ranks: the program, what the numbers depend on, the data, and
// what decides when ranks meet.
Settings settings_of_rank(const TrainConfig& config, const BatchPlan& batches,
                          const DataSource& source);

// All ranks call it. Throws UsageError on every rank, with both sides of each difference, if a rank
// has other settings than rank 0.
void require_same(const Group& group, const Settings& settings);

// The largest number that a rank has, on all ranks: a signal to stop, say. Waits for all ranks.
std::int64_t largest(const Group& group, std::int64_t value);

}  // namespace lockstep::train
