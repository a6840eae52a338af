// Where the time of training goes.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace lockstep::train {

struct PhaseTimes {
  double total = 0;          // Seconds of training steps,
  double data = 0;           // of which waiting for batches,
  double communication = 0;  // and for other ranks.

  PhaseTimes operator-(const PhaseTimes& other) const {
    return {total - other.total, data - other.data, communication - other.communication};
  }
};

// A stopwatch that runs while steps are made; what is waited at other times does not count.
class PhaseClock {
 public:
  using Clock = std::chrono::steady_clock;

  void start() {
    begun_ = Clock::now();
    is_running_ = true;
  }
  void stop() {
    total_ += Clock::now() - begun_;
    is_running_ = false;
  }
  void add_data(Clock::duration waited) { data_ += is_running_ ? waited : Clock::duration(0); }
  void add_communication(Clock::duration waited) {
    communication_ += is_running_ ? waited : Clock::duration(0);
  }

  // `reducing` is what the reducer waited besides, in seconds.
  [[nodiscard]] PhaseTimes times(double reducing) const {
    const auto total = is_running_ ? total_ + (Clock::now() - begun_) : total_;
    return {std::chrono::duration<double>(total).count(),
            std::chrono::duration<double>(data_).count(),
            std::chrono::duration<double>(communication_).count() + reducing};
  }

 private:
  Clock::time_point begun_;
  bool is_running_ = false;
  Clock::duration total_{0};
  Clock::duration data_{0};
  Clock::duration communication_{0};
};

// What a rank worked in each of the last steps, without waiting for others.
class StepWork {
 public:
  // After a step, with all times until then.
  void add(const PhaseTimes& times) {
    const auto step = times - before_;
    before_ = times;
    work_.push_back(step.total - step.communication);
    if (work_.size() > kKept) {
      work_.erase(work_.begin());
    }
  }
  [[nodiscard]] const std::vector<double>& last() const { return work_; }

 private:
  static constexpr std::size_t kKept = 20;
  PhaseTimes before_;
  std::vector<double> work_;
};

}  // namespace lockstep::train
