// Makes one line of the log from what each rank measured.
#pragma once

#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/loop/observer.h"
#include "lockstep/train/loop/phase_times.h"

namespace lockstep::train {

// What one rank did since the last interval.
struct IntervalPart {
  Tally::Sums sums{};
  PhaseTimes times;
  std::vector<double> work;  // Seconds of each of the last steps, without waiting for others.
};

// Scores are added in the order of the ranks.
Interval interval_of(const std::vector<IntervalPart>& parts);

// Returns the parts of all ranks, on every rank. All of them call it.
std::vector<IntervalPart> gather(const Group& group, const IntervalPart& part);

}  // namespace lockstep::train
