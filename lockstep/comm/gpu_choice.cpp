#include "lockstep/comm/gpu_choice.h"

#include <map>

#include "lockstep/base/text/text.h"

namespace lockstep::comm {
namespace {

constexpr char kSeparator = '\n';

using Taken = std::map<std::string, int>;  // Bus ids, and the first rank that took each.

GpuChoice choose(const std::vector<std::string>& bus_ids, std::size_t local_rank,
                 const Taken& taken) {
  if (local_rank < bus_ids.size()) {
    return {.number = static_cast<int>(local_rank), .shared_with = std::nullopt};
  }
  for (std::size_t number = 0; number < bus_ids.size(); ++number) {
    if (!taken.contains(bus_ids[number])) {
      return {.number = static_cast<int>(number), .shared_with = std::nullopt};
    }
  }
  const auto number = local_rank % bus_ids.size();
  return {.number = static_cast<int>(number), .shared_with = taken.at(bus_ids[number])};
}

}  // namespace

GpuChoice choose_gpu(const std::vector<SeenGpus>& ranks) {
  Taken taken;
  GpuChoice choice;
  std::size_t local_rank = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].host != ranks.back().host) {
      continue;
    }
    const auto& ids = ranks[rank].bus_ids;
    if (!ids.empty()) {
      choice = choose(ids, local_rank, taken);
      if (const auto& id = ids[static_cast<std::size_t>(choice.number)]; !id.empty()) {
        taken.emplace(id, static_cast<int>(rank));
      }
    }
    ++local_rank;
  }
  return choice;
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
