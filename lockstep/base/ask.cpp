#include "lockstep/base/ask.h"

#include <thread>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// A step of a small network takes a tenth of that, and sleeping would take longer.
constexpr std::chrono::milliseconds kWithoutPause{1};
constexpr std::chrono::microseconds kPause{100};

}  // namespace

bool ask_for(std::chrono::milliseconds at_most, const std::function<bool()>& is_done) {
  const auto begun = Clock::now();
  while (true) {
    if (is_done()) {
      return true;
    }
    const auto waited = Clock::now() - begun;
    if (waited >= at_most) {
      return false;
    }
    if (waited < kWithoutPause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace lockstep
