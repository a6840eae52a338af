// Which samples a rank trains on and validates with, and in which batches.
#pragma once

#include <memory>

#include "lockstep/comm/group.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// The share of this rank in each step, in the order that the seed and the epoch give; what is left
// at the end of an epoch is left out.
data::DataLoader train_loader(const TrainConfig& config, const DataSource& source,
                              const BatchPlan& batches, const Group& world);

// Every sample of the validation or the test part on exactly one rank.
data::DataLoader evaluation_loader(const TrainConfig& config,
                                   const std::shared_ptr<const data::Dataset>& part,
                                   const BatchPlan& batches, const Group& world);

}  // namespace lockstep::train
