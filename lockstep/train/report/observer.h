// What watches a run: rank 0's log files and console (run_log.h, console.h).
//
// A new kind of log is a class that derives from Observer and is added where session.cpp makes the
// others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/train/report/position.h"
#include "lockstep/train/report/tally.h"
#include "lockstep/train/run/gpu_use.h"

namespace lockstep::train {

// Since the last interval's end, over all ranks.
struct Interval {
  Position position;
  Scores train;
  double lr = 0;
  double samples_per_second = 0;
  double data_wait = 0;           // Part of the time, from 0 to 1, of the mean rank.
  double communication_wait = 0;  // Likewise.
  std::optional<GpuUse> gpu;      // Rank 0's, at the interval's end.
  std::string slow_rank;          // Which one the others wait for, in words; empty: none.
};

struct Epoch {
  Position position;  // At the epoch's end; `epoch` is the one that ended.
  Scores train;
  Scores validation;
  double lr = 0;
  double samples_per_second = 0;  // In the steps of this start; 0: they were made before.
  bool is_best = false;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(const Position& /*position*/) {}
  virtual void on_interval(const Interval& /*interval*/) {}
  virtual void on_epoch(const Epoch& /*epoch*/) {}
  // Between two intervals it was found that the others wait for a rank, in words.
  virtual void on_slow_rank(const std::string& /*text*/) {}
  // After the last epoch, if the data has a test part.
  virtual void on_test(const Position& /*position*/, const Scores& /*test*/) {}
  // Something went wrong that the run survives.
  virtual void on_warning(const std::string& /*warning*/) {}

 protected:
  Observer() = default;
  Observer(const Observer&) = default;
  Observer& operator=(const Observer&) = default;
};

}  // namespace lockstep::train
