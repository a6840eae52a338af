// What a run is made of before its first step, for functions that begin it.
#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"
#include "lockstep/train/loop/learner.h"

namespace lockstep::train {

// Lives no longer than the run.
struct RunParts {
  const TrainConfig& config;
  const Group& world;
  const DataSource& source;
  const std::string& model;
  const BatchPlan& batches;
  Learner& learner;
  std::function<void(const std::string&)> say;  // For people; only what rank 0 says is printed.
};

}  // namespace lockstep::train
