#include "lockstep/device/steps_ahead.h"

#include "lockstep/device/stream.h"

namespace lockstep::device {

void StepsAhead::after_step() {
  if (device_.is_cpu()) {
    return;
  }
  ends_.emplace_back(device_.type()).record(current_stream(device_));
  if (ends_.size() > most_) {
    const auto& oldest = ends_.front();
    if (wait_) {
      wait_([&] { return oldest.query(); });
    } else {
      oldest.synchronize();
    }
    ends_.pop_front();
  }
}

}  // namespace lockstep::device
