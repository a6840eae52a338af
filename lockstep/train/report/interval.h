// Makes one line of the log from what each rank measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/train/report/observer.h"
#include "lockstep/train/report/phase_times.h"

namespace lockstep::train {

// What one rank did since the last interval.
struct IntervalPart {
  Tally::Sums sums{};
  PhaseTimes times;
  std::vector<double> work;  // Seconds of each of the last steps, without waiting for others.
};

// Scores are added in the order of the ranks.
Interval interval_of(const std::vector<IntervalPart>& parts);

// Looks for a slow rank, also between the lines of the log, which may be far apart.
class SlowRankWatch {
 public:
  static constexpr std::int64_t kSteps = 20;  // From one look to the next.

  // `work` is that of this rank's last steps. Returns in words which rank is slow, with the lag of
  // each, if that rank was not slow at the last look; else nothing. All ranks call it.
  std::string look(const Group& group, const std::vector<double>& work);
  // The same where the parts of all ranks are here already.
  std::string look(const std::vector<IntervalPart>& parts);

 private:
  int slow_ = -1;
};

// Returns the parts of all ranks, on every rank. All of them call it.
std::vector<IntervalPart> gather(const Group& group, const IntervalPart& part);

}  // namespace lockstep::train
