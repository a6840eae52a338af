#include "lockstep/base/deadline.h"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace lockstep {

Deadline Deadline::in(std::chrono::milliseconds from_now) {
  constexpr std::chrono::hours kYear{24 * 365};
  const auto clamped = std::clamp<std::chrono::milliseconds>(from_now, {}, kYear);
  return {Clock::now() + clamped, clamped};
}

std::chrono::milliseconds Deadline::remaining() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
  return std::max(left, std::chrono::milliseconds{0});
}

std::chrono::milliseconds Deadline::as_timeout() const {
  return std::max(remaining(), std::chrono::milliseconds{1});
}

int Deadline::poll_timeout() const {
  return static_cast<int>(std::min<std::chrono::milliseconds::rep>(
      remaining().count(), std::numeric_limits<int>::max()));
}

std::string to_text(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  char text[48];
  if (ms < 1000) {
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(ms));
  } else if (ms >= 120'000 && ms % 60'000 == 0) {
    std::snprintf(text, sizeof text, "%lld min", static_cast<long long>(ms / 60'000));
  } else if (ms % 1000 == 0) {
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(ms / 1000));
  } else {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000.0);
  }
  return text;
}

}  // namespace lockstep
