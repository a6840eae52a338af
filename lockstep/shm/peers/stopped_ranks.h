// The ranks that one wait has seen stopped.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep::shm {

class StoppedRanks {
 public:
  explicit StoppedRanks(std::function<bool(int rank)> is_stopped);

  // Returns the awaited ranks that have been stopped for a second or more, each only once. Looks
  // four times a second; if there are many ranks, at some of them in turn. A look takes
  // microseconds, and every waiting rank does it.
  std::vector<int> find(const std::vector<int>& awaited);

 private:
  using Clock = Deadline::Clock;
  bool is_news(int rank);

  std::function<bool(int)> is_stopped_;
  std::map<int, Clock::time_point> since_;
  std::size_t turn_ = 0;
  Clock::time_point next_look_;
};

}  // namespace lockstep::shm
