#include "lockstep/train/run/slow_rank.h"

#include <algorithm>
#include <cstdio>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) {
    return *middle;
  }
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> medians(std::span<const WorkTimes> ranks) {
  std::vector<double> found;
  found.reserve(ranks.size());
  for (const auto& times : ranks) {
    if (times.size() != ranks.front().size()) {
      throw UsageError("find_slow_rank: ranks with " + std::to_string(ranks.front().size()) +
                       " and " + std::to_string(times.size()) +
                       " steps, expected the same steps of all ranks");
    }
    found.push_back(median(times));
  }
  return found;
}

// In how many steps no other rank worked as long.
std::size_t steps_as_slowest(std::span<const WorkTimes> ranks, std::size_t rank) {
  std::size_t count = 0;
  for (std::size_t step = 0; step < ranks[rank].size(); ++step) {
    bool slowest = true;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      slowest = slowest && (other == rank || ranks[other][step] < ranks[rank][step]);
    }
    count += slowest ? 1 : 0;
  }
  return count;
}

std::string milliseconds(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f ms", seconds * 1000);
  return text;
}

}  // namespace

std::optional<SlowRank> find_slow_rank(std::span<const WorkTimes> ranks,
                                       const SlowRankLimits& limits) {
  if (ranks.size() < 2) {
    return std::nullopt;
  }
  auto others = medians(ranks);
  const std::size_t steps = ranks.front().size();
  const auto slowest = std::max_element(others.begin(), others.end());
  SlowRank slow{static_cast<int>(slowest - others.begin()), *slowest, 0};
  others.erase(slowest);
  slow.others_seconds = median(others);
  const auto as_slowest =
      static_cast<double>(steps_as_slowest(ranks, static_cast<std::size_t>(slow.rank)));
  const bool is_slow = steps >= std::max<std::size_t>(limits.least_steps, 1) &&
                       slow.seconds >= limits.factor * slow.others_seconds &&
                       slow.lag() >= limits.least_lag &&
                       as_slowest >= limits.share_of_steps * static_cast<double>(steps);
  return is_slow ? std::optional(slow) : std::nullopt;
}

std::string describe(const SlowRank& slow) {
  return "rank " + std::to_string(slow.rank) + " is slow: " + milliseconds(slow.seconds) +
         " of work in a step, the others " + milliseconds(slow.others_seconds) +
         ": all ranks wait " + milliseconds(slow.lag()) + " for it";
}

std::string lag_table(std::span<const WorkTimes> ranks) {
  std::string table = "rank   work/step      lag";
  const auto times = medians(ranks);
  const double fastest = times.empty() ? 0 : *std::min_element(times.begin(), times.end());
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    char row[96];
    std::snprintf(row, sizeof row, "\n%4zu %8.1f ms %5.1f ms", rank, times[rank] * 1000,
                  (times[rank] - fastest) * 1000);
    table += row;
  }
  return table;
}

}  // namespace lockstep::train
