// Which GPU a rank takes.
//
// The one with its local rank as number, if it sees so many. A scheduler may show each rank only
// its own (srun --gpus-per-task=1); these begin again at 0, and are told apart by their bus ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::comm {

// What a rank sees.
struct SeenGpus {
  std::string host;
  std::vector<std::string> bus_ids;  // By number.
};

// Whether NCCL was told to let ranks share a GPU, which 2.30 and later do.
bool nccl_shares_gpus(const Environment& environment);

inline int gpu_number(int local_rank, int gpus) { return local_rank % gpus; }

// The last of `ranks`, which begin with rank 0, takes a GPU: the rank that took the same one before
// it. Empty entries are ranks of which nothing is known.
std::optional<int> rank_with_same_gpu(const std::vector<std::optional<SeenGpus>>& ranks);

// For the store.
std::string text_of(const SeenGpus& seen);
SeenGpus seen_gpus_from(std::string_view text);

}  // namespace lockstep::comm
