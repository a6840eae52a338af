// What the deaths of ranks cost a run that a launcher starts again: how often, and how long it took
// until the next new step.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/train/loop/observer.h"

namespace lockstep::train {

// On rank 0. Keeps one line in a file of the run's folder, since the process that died cannot tell:
// the last step, when it was made, and the cost so far. A disk that fails costs the figures alone.
class RestartCost : public Observer {
 public:
  using Clock = std::chrono::system_clock;  // Processes have no other clock in common.

  // `restarts`: how often the launcher has started the ranks again, in this job; 0 begins anew.
  RestartCost(std::string path, int restarts);

  void on_step(const Position& position) override { on_step(position.step, Clock::now()); }
  void on_step(std::int64_t step, Clock::time_point now);

  [[nodiscard]] int restarts() const { return restarts_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  void read();
  void write(Clock::time_point now) const;

  std::string path_;
  int restarts_;
  double seconds_ = 0;
  std::int64_t last_step_ = 0;  // The last that any process of the job has made.
  Clock::time_point last_time_;
  bool is_behind_ = false;  // Steps are made again.
};

}  // namespace lockstep::train
