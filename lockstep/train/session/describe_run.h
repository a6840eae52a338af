// What rank 0 says before a run begins: what was allocated, and what is to be trained on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// Where a rank runs.
struct Place {
  std::string host;
  int gpu = -1;  // The machine's number of it, whatever CUDA_VISIBLE_DEVICES shows; -1: the CPU.
};

// Those of all ranks, on every rank. All of them call it.
std::vector<Place> places_of(const Group& world);

// A line for each host: "n1: ranks 0-3 on GPUs 4-7". Of many hosts the first ones.
std::string describe_places(const std::vector<Place>& places);

// "sgd with learning rate 0.02, cosine".
std::string describe_optimizer(const TrainConfig& config, const BatchPlan& batches);

// What --model-ema means for the scores of this run; empty without it.
std::string describe_ema(const TrainConfig& config, const BatchPlan& batches);

struct RunPlan {
  const TrainConfig& config;
  const DataSource& source;
  const BatchPlan& batches;
  std::int64_t parameters = 0;  // The network's.
};

// Several lines, without a newline at the end. All ranks of `world` call it.
std::string describe_run(const RunPlan& plan, const Group& world);

}  // namespace lockstep::train
