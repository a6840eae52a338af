// What the deaths of ranks cost a run that a launcher starts again: how often, and how long it took
// until the next new step or validation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/train/report/observer.h"

namespace lockstep::train {

// On rank 0. Keeps one line in a file of the run's folder, since the process that died cannot tell:
// the last step, when it or its validation was done, the cost so far, and when the job began. Each
// write takes the place of the whole line, so a process that dies in between loses nothing. A disk
// that fails costs the figures alone.
class RestartCost : public Observer {
 public:
  using Clock = std::chrono::system_clock;  // Processes have no other clock in common.

  // `restarts`: how often the launcher has started the ranks again, in this job; 0 begins anew.
  // `began`: when the job did, for a restart after a start that died before it wrote its line.
  RestartCost(std::string path, int restarts, std::optional<Clock::time_point> began = {});

  void on_step(const Position& position) override { on_step(position.step, Clock::now()); }
  void on_step(std::int64_t step, Clock::time_point now);
  // A validation at the last step or later also ends the time that a restart has cost.
  void on_epoch(const Epoch& epoch) override { on_epoch(epoch.position.step, Clock::now()); }
  void on_epoch(std::int64_t step, Clock::time_point now);
  // The run is finished: ends the time that the last restart has cost.
  void on_end(Clock::time_point now = Clock::now());

  [[nodiscard]] int restarts() const { return restarts_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  // Since the first start of the job; nothing if a restart could not read when that was.
  [[nodiscard]] std::optional<double> seconds_of_job(Clock::time_point now = Clock::now()) const;

 private:
  [[nodiscard]] bool read();
  void advance(std::int64_t step, Clock::time_point now);

  std::string path_;
  int restarts_;
  UniqueFd file_;  // None until the first write.
  double seconds_ = 0;
  std::int64_t last_step_ = 0;  // The last that any process of the job has made.
  Clock::time_point last_time_;
  std::optional<Clock::time_point> begun_;  // The job's first start.
  bool is_behind_ = false;                  // Steps are made again.
};

}  // namespace lockstep::train
