// Names the rank that all others wait for.
//
// Ranks in lockstep need the same time for a step, whoever is slow. What tells them apart is the
// time that each works by itself: the step without its waiting for others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::train {

// Seconds that one rank worked in each of the last steps, the same steps for all ranks.
using WorkTimes = std::vector<double>;

struct SlowRank {
  int rank = 0;
  double seconds = 0;         // Its work in a step: the median of its steps.
  double others_seconds = 0;  // The median of the other ranks' medians.

  [[nodiscard]] double lag() const { return seconds - others_seconds; }
};

struct SlowRankLimits {
  double factor = 1.5;       // Times as slow as the others, at least.
  double least_lag = 0.002;  // Seconds a step. Less is noise of the machine.
  // The share of steps in which it must be the slowest of all: a rank that was late once is not
  // slow.
  double share_of_steps = 0.8;
  std::size_t least_steps = 5;  // Fewer say nothing.
};

// The rank that is slow in these steps; nothing if all keep up, or there is but one rank. Twenty
// steps are enough to be sure, and few enough to hear of it soon. Throws UsageError if ranks have
// different numbers of steps.
std::optional<SlowRank> find_slow_rank(std::span<const WorkTimes> ranks,
                                       const SlowRankLimits& limits = {});

// "rank 3 is slow: 41.0 ms of work in a step, the others 12.5 ms: all ranks wait 28.5 ms for it".
std::string describe(const SlowRank& slow);

// A row for each rank: its work in a step, and how much more that is than the fastest one's. No
// newline at the end.
std::string lag_table(std::span<const WorkTimes> ranks);

}  // namespace lockstep::train
