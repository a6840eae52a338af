// Which GPU a rank takes.
//
// The one with its local rank as number, if it sees so many. A scheduler may show each rank only
// its own (srun --gpus-per-task=1). Then the numbers begin again at 0, and the GPUs are told apart
// by their bus ids.
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
  std::vector<std::string> bus_ids;  // By number; empty where the driver does not tell one.
};

struct GpuChoice {
  int number = 0;
  std::optional<int> shared_with;  // A rank before it on its host, if there is no GPU left.
};

// For the last of the ranks, which begin with rank 0 and sees a GPU at least. A rank that sees
// fewer GPUs than its local rank takes the first one that no rank before it on its host has.
GpuChoice choose_gpu(const std::vector<SeenGpus>& ranks);

// Whether NCCL was told to let ranks share a GPU, which 2.30 and later do.
bool nccl_shares_gpus(const Environment& environment);

// For the store.
std::string text_of(const SeenGpus& seen);
SeenGpus seen_gpus_from(std::string_view text);

}  // namespace lockstep::comm
