#include "lockstep/train/loop/restart_cost.h"

#include <fstream>
#include <utility>

namespace lockstep::train {
namespace {

double seconds_since_epoch(RestartCost::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

RestartCost::RestartCost(std::string path, int restarts)
    : path_(std::move(path)), restarts_(restarts), last_time_(Clock::now()) {
  if (restarts > 0) {
    read();
  }
}

void RestartCost::on_step(std::int64_t step, Clock::time_point now) {
  if (is_behind_ && step > last_step_) {
    seconds_ += std::chrono::duration<double>(now - last_time_).count();
    is_behind_ = false;
  }
  if (!is_behind_) {
    last_step_ = step;
    last_time_ = now;
    write(now);
  }
}

void RestartCost::read() {
  std::ifstream file(path_);
  double time = 0;
  if (file >> last_step_ >> time >> seconds_) {
    last_time_ = Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time)));
    is_behind_ = true;
  }
}

void RestartCost::write(Clock::time_point now) const {
  std::ofstream file(path_, std::ios::trunc);
  file.precision(17);
  file << last_step_ << ' ' << seconds_since_epoch(now) << ' ' << seconds_ << '\n';
}

}  // namespace lockstep::train
