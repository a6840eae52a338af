// A point on the monotonic clock after which a wait must give up.
//
// Only the monotonic clock is used, so a change of the wall clock ends no wait.
#pragma once

#include <chrono>
#include <string>

namespace lockstep {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Times further away than a year are clamped: "for ever" does not overflow.
  static Deadline in(std::chrono::milliseconds from_now);

  // Never negative; 0 once the deadline has passed.
  [[nodiscard]] std::chrono::milliseconds remaining() const;
  [[nodiscard]] bool passed() const { return Clock::now() >= at_; }

  // The remaining time for libraries to which 0 means no limit: at least 1 ms.
  [[nodiscard]] std::chrono::milliseconds as_timeout() const;

  // The remaining time as poll(2) wants it, rounded up so that no wait spins.
  [[nodiscard]] int poll_timeout() const;

  [[nodiscard]] Clock::time_point at() const { return at_; }
  // The time the deadline was made with, for messages: "30 s".
  [[nodiscard]] std::chrono::milliseconds total() const { return total_; }

 private:
  Deadline(Clock::time_point at, std::chrono::milliseconds total) : at_(at), total_(total) {}

  Clock::time_point at_;
  std::chrono::milliseconds total_;
};

// "250 ms", "30 s", "1.5 s", "30 min": how messages write a duration.
std::string to_text(std::chrono::milliseconds duration);

}  // namespace lockstep
