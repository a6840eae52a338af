// How the batch of one optimizer step is divided among ranks and accumulation steps.
#pragma once

#include <cstdint>

namespace lockstep::data {

struct GlobalBatch {
  std::int64_t size = 0;  // Samples of one optimizer step, over all ranks.
  std::int64_t world_size = 1;
  std::int64_t accumulation = 1;  // Backward passes of a rank before each optimizer step.
};

// Samples of one backward pass of one rank. Throws UsageError, naming the nearest size that fits,
// if ranks x accumulation does not divide the global batch: some samples would weigh more.
std::int64_t batch_size_per_rank(const GlobalBatch& batch);

}  // namespace lockstep::data
