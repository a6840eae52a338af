#include "lockstep/parallel/step_state.h"

#include <utility>

namespace lockstep::parallel {

void StepState::expect_backward(std::size_t parameters, std::vector<std::size_t> bucket_sizes) {
  phase_ = Phase::kExpected;
  ready_.assign(parameters, false);
  pending_ = std::move(bucket_sizes);
  next_ = 0;
  watched_ = -1;
}

bool StepState::begin_backward() {
  return std::exchange(phase_, Phase::kInBackward) != Phase::kInBackward;
}

bool StepState::mark_ready(std::size_t parameter) {
  const bool was_ready = ready_[parameter];
  ready_[parameter] = true;
  return !was_ready;
}

std::vector<std::size_t> StepState::missing() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) {
      found.push_back(i);
    }
  }
  return found;
}

std::optional<std::size_t> StepState::next_complete_bucket() {
  if (all_started() || pending_[next_] > 0) {
    return std::nullopt;
  }
  return next_++;
}

bool StepState::watch(int backward) { return std::exchange(watched_, backward) != backward; }

}  // namespace lockstep::parallel
