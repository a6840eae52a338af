// What rank 0 says while a run goes on: a progress line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/report/observer.h"
#include "lockstep/train/run/output_log.h"
#include "lockstep/train/run/progress_writer.h"

namespace lockstep::train {

class Console : public Observer {
 public:
  // Writes to `fd`, which stays open. `unit` is what a sample is called: "images". `copy` gets what
  // would be written if `fd` were no terminal; it outlives this.
  Console(int fd, int epochs, const BatchPlan& batches, std::string unit,
          OutputLog* copy = nullptr);

  void say(const std::string& text);
  void finish() { writer_.finish(); }

  void on_step(const Position& position) override;
  void on_interval(const Interval& interval) override;
  void on_epoch(const Epoch& epoch) override;
  void on_slow_rank(const std::string& text) override { say(text); }
  void on_test(const Position& position, const Scores& test) override;
  void on_warning(const std::string& warning) override;

  // Each once, with how often it came.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  using Clock = std::chrono::steady_clock;

  void show(const Position& position);

  void keep(const std::string& line);

  ProgressWriter writer_;
  OutputLog* copy_;
  BatchPlan batches_;
  std::string unit_;
  Progress progress_;
  Clock::time_point begun_ = Clock::now();
  std::int64_t steps_here_ = 0;  // Steps of this process.
  std::map<std::string, int> warnings_;
};

}  // namespace lockstep::train
