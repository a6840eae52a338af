#include "lockstep/train/report/rank_scores.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using checkpoint::Dict;
using checkpoint::List;
using checkpoint::Value;

constexpr std::size_t kSaved = 4;  // All losses are finite when a checkpoint is saved.

List list_of(const Tally::Sums& sums) {
  return List(sums.begin(), sums.begin() + kSaved);  // Not in braces: that is a list of two.
}

Tally::Sums sums_from(const Value* value) {
  const auto* list = value == nullptr ? nullptr : value->get_if<List>();
  Tally::Sums sums{};
  if (list == nullptr || list->size() != kSaved) {
    throw IoError("the checkpoint's scores of a rank are not four numbers");
  }
  for (std::size_t i = 0; i < kSaved; ++i) {
    const auto* number = (*list)[i].get_if<double>();
    if (number == nullptr) {
      throw IoError("the checkpoint's scores of a rank are not four numbers");
    }
    sums[i] = *number;
  }
  sums[4] = sums[3];
  return sums;
}

void add(Tally::Sums& sums, const Tally::Sums& more) {
  std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
}

}  // namespace

std::vector<RankScores> gather(const Group& group, const RankScores& scores) {
  static_assert(std::is_trivially_copyable_v<RankScores>);
  const std::string bytes(reinterpret_cast<const char*>(&scores), sizeof scores);
  std::vector<RankScores> ranks;
  for (const auto& text : group.all_gather_bytes(bytes)) {
    std::memcpy(&ranks.emplace_back(), text.data(), std::min(text.size(), sizeof scores));
  }
  return ranks;
}

Value to_value(const std::vector<RankScores>& ranks) {
  List list;
  for (const auto& scores : ranks) {
    list.emplace_back(
        Dict{{"epoch", list_of(scores.epoch)}, {"interval", list_of(scores.interval)}});
  }
  return list;
}

std::vector<RankScores> rank_scores_from(const Value& value) {
  const auto* list = value.get_if<List>();
  if (list == nullptr || list->empty()) {
    throw IoError("the checkpoint has no list of the ranks' scores");
  }
  std::vector<RankScores> ranks;
  for (const auto& rank : *list) {
    ranks.push_back({sums_from(rank.find("epoch")), sums_from(rank.find("interval"))});
  }
  return ranks;
}

RankScores share_of(const std::vector<RankScores>& ranks, int rank, int world_size) {
  if (static_cast<int>(ranks.size()) == world_size) {
    return ranks[static_cast<std::size_t>(rank)];
  }
  RankScores all;
  for (const auto& scores : ranks) {
    add(all.epoch, scores.epoch);
    add(all.interval, scores.interval);
  }
  return rank == 0 ? all : RankScores{};
}

}  // namespace lockstep::train
