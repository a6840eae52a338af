#include "lockstep/comm/gpu_choice.h"

#include <algorithm>

#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

constexpr char kSeparator = '\n';

}  // namespace

std::optional<int> rank_with_same_gpu(const std::vector<std::optional<SeenGpus>>& ranks) {
  const auto& own = ranks.back();
  if (!own || own->bus_ids.empty()) {
    return std::nullopt;
  }
  struct Taken {
    int rank;
    std::string bus_id;
  };
  std::vector<Taken> taken;
  int local_rank = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank] || ranks[rank]->host != own->host) {
      continue;
    }
    const auto& ids = ranks[rank]->bus_ids;
    if (!ids.empty()) {
      const int number = gpu_number(local_rank, static_cast<int>(ids.size()));
      taken.push_back({static_cast<int>(rank), ids[static_cast<std::size_t>(number)]});
    }
    ++local_rank;
  }
  const auto same = std::ranges::find(taken, taken.back().bus_id, &Taken::bus_id);
  return same->rank == taken.back().rank ? std::nullopt : std::optional(same->rank);
}

bool nccl_shares_gpus(const Environment& environment) {
  return environment.get_int("NCCL_MULTI_RANK_GPU_ENABLE").value_or(0) != 0;
}

std::string text_of(const SeenGpus& seen) {
  std::string text = seen.host;
  for (const auto& id : seen.bus_ids) {
    text += kSeparator + id;
  }
  return text;
}

SeenGpus seen_gpus_from(std::string_view text) {
  auto parts = split(text, kSeparator);
  SeenGpus seen{.host = parts.front(), .bus_ids = {}};
  seen.bus_ids.assign(parts.begin() + 1, parts.end());
  return seen;
}

}  // namespace lockstep::comm
