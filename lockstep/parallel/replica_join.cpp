// The part of Replica that is for ranks with batches of different sizes, or different numbers of
// them.
#include "lockstep/base/error.h"
#include "lockstep/parallel/reducer.h"
#include "lockstep/parallel/replica.h"

namespace lockstep::parallel {

void Replica::begin_join(const JoinOptions& options) {
  errors_.run([&] {
    if (join_) {
      throw UsageError("join: the module is inside a join already");
    }
    if (delayed_) {
      throw UsageError(
          "join: a rank without inputs adds nothing to delayed parameters; do not set "
          "delay_all_reduce_named_params");
    }
    if (!reducer_->can_shadow() || check_.is_on() || count_) {
      throw UsageError(
          "join: with static_graph, check_replicas_every or mean_over_samples all ranks have the "
          "same steps; set none of them");
    }
    for (const auto& parameter : reducer_->parameters()) {
      if (parameter.sparse) {
        throw UsageError("join: the gradient of '" + parameter.name +
                         "' is sparse, so a rank without inputs has no zeros for it; make its "
                         "module without sparse");
      }
    }
    join_.emplace(group_, reducer_->parameters().front().tensor.device(), options);
  });
}

void Replica::end_join() noexcept {
  join_.reset();
  reducer_->set_divisor(group_.size());
}

void Replica::shadow_others() {
  bool has_most_steps = true;
  errors_.run([&] {
    while (join_->shadow_forward() > 0) {
      has_most_steps = false;
      shadow_step();
    }
    auto tensors = states(module_, ignored_);
    if (!forward_sync_buffers_) {  // Parameters come first.
      tensors.resize(tensors.size() - buffers(module_, ignored_).size());
    }
    broadcast(tensors, {.root = join_->common_rank(has_most_steps)});
  });
}

void Replica::shadow_step() {
  errors_.enter(Phase::kForward, stats_.steps + 1);
  reducer_->before_forward();
  sync_buffers(/*has_inputs=*/false);
  buffers_are_due_ = join_->others_synchronize();
  if (buffers_are_due_) {
    errors_.enter(Phase::kBackward, stats_.steps + 1);
    reducer_->shadow_backward();
    count_step();
  }
}

// After several forwards their gradients count as much as the last one has samples.
void Replica::count_samples(std::optional<double> samples) {
  if (!samples) {
    throw UsageError(
        "mean_over_samples: no argument of forward is a tensor with a dimension, so the number of "
        "samples is unknown; call set_samples() before each forward");
  }
  if (graph_ != nullptr) {
    throw UsageError(
        "mean_over_samples waits for the GPU, so the step cannot be recorded; do not set it");
  }
  count_->begin(*samples);
}

}  // namespace lockstep::parallel
