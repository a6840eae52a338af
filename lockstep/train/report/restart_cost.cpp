#include "lockstep/train/report/restart_cost.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

namespace lockstep::train {
namespace {

constexpr mode_t kPrivate = 0600;

double seconds_since_epoch(RestartCost::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

RestartCost::Clock::time_point time_from(double seconds_since_epoch) {
  return RestartCost::Clock::time_point(std::chrono::duration_cast<RestartCost::Clock::duration>(
      std::chrono::duration<double>(seconds_since_epoch)));
}

}  // namespace

RestartCost::RestartCost(std::string path, int restarts, std::optional<Clock::time_point> began)
    : path_(std::move(path)), restarts_(restarts), last_time_(Clock::now()) {
  if (restarts > 0) {
    if (!read() && began) {
      begun_ = began;
      last_time_ = *began;
      is_behind_ = true;
    }
  } else {
    begun_ = last_time_;
    advance(0, last_time_);  // Another job may have left its line there.
  }
}

void RestartCost::on_step(std::int64_t step, Clock::time_point now) {
  if (!is_behind_ || step > last_step_) {
    advance(step, now);
  }
}

void RestartCost::on_epoch(std::int64_t step, Clock::time_point now) {
  if (!is_behind_ || step >= last_step_) {
    advance(step, now);
  }
}

void RestartCost::on_end(Clock::time_point now) {
  if (is_behind_) {
    advance(last_step_, now);
  }
}

bool RestartCost::read() {
  std::ifstream file(path_);
  double time = 0;
  if (!(file >> last_step_ >> time >> seconds_)) {
    last_step_ = 0;
    seconds_ = 0;
    return false;
  }
  last_time_ = time_from(time);
  is_behind_ = true;
  if (file >> time) {  // Older programs did not write it.
    begun_ = time_from(time);
  }
  return true;
}

std::optional<double> RestartCost::seconds_of_job(Clock::time_point now) const {
  if (!begun_) {
    return std::nullopt;
  }
  return std::chrono::duration<double>(now - *begun_).count();
}

void RestartCost::advance(std::int64_t step, Clock::time_point now) {
  if (std::exchange(is_behind_, false)) {
    seconds_ += std::chrono::duration<double>(now - last_time_).count();
  }
  last_step_ = step;
  last_time_ = now;
  if (!file_) {
    file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivate));
  }
  // Always as wide, so that nothing has to be truncated.
  std::array<char, 96> line{};
  int size = std::snprintf(line.data(), line.size(), "%20lld %20.6f %20.6f",
                           static_cast<long long>(step), seconds_since_epoch(now), seconds_);
  if (begun_ && size > 0 && static_cast<std::size_t>(size) < line.size()) {
    size += std::snprintf(line.data() + size, line.size() - static_cast<std::size_t>(size),
                          " %20.6f", seconds_since_epoch(*begun_));
  }
  const auto bytes = std::min(static_cast<std::size_t>(size) + 1, line.size());
  line[bytes - 1] = '\n';
  (void)!::pwrite(file_.get(), line.data(), bytes, 0);
}

}  // namespace lockstep::train
