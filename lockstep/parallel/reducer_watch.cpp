// The part of Reducer that notices which backward passes a step has, and when they are over.
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/reducer.h"

namespace lockstep::parallel {

// A pass can be started inside another one, for a part of the graph; each is watched by itself.
void Reducer::watch_this_backward() {
  if (step_.watch(current_backward())) {
    when_backward_is_done([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->on_backward_done();
      }
    });
  }
}

void Reducer::backward_begins() {
  const std::lock_guard lock(mutex_);
  if (step_.is_synchronized() && backward_is_for_all()) {
    watch_this_backward();
  }
}

void Reducer::backward_passes_outputs_of(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (step_.is_synchronized()) {
    watch_for_nested_backwards();
    return;
  }
  if (step > steps_ || std::exchange(late_for_, step) != 0) {
    return;
  }
  when_backward_is_done([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      const std::lock_guard inner(self->mutex_);
      self->late_for_ = 0;
    }
  });
}

// Watches a pass whose gradients all come from passes inside it, as when the whole network is in
// checkpoints. Without this nobody would notice its end, nor a parameter that got no gradient. A
// pass that brought no gradient at all, such as one for inputs alone, does not count. Where outputs
// have a sink, the sink reports the pass.
void Reducer::watch_for_nested_backwards() {
  if (readiness_->needs_sink() || !backward_is_for_all() || !step_.watch(current_backward())) {
    return;
  }
  outer_is_watched_ = true;
  when_backward_is_done([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->outer_is_over()) {
      self->on_backward_done();
    }
  });
}

// Returns whether the passes inside brought gradients.
bool Reducer::outer_is_over() {
  const std::lock_guard lock(mutex_);
  outer_is_watched_ = false;
  return step_.phase() == StepState::Phase::kInBackward;
}

void Reducer::reject_late(std::size_t parameter) const {
  const auto step = std::to_string(late_for_);
  throw UsageError("this backward goes through outputs of a forward that step " + step +
                   " has averaged gradients for already, so that of '" +
                   parameters_[parameter].name +
                   "' would stay on this rank; add the losses and call backward() once, or call "
                   "each forward after the backward before; inside no_sync() gradients may stay");
}

}  // namespace lockstep::parallel
