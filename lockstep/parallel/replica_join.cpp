// The part of Replica that is for ranks with batches of different sizes, or different numbers of
// them.
#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/parallel/reducer.h"
#include "lockstep/parallel/replica.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kManySteps = 1000;  // Without inputs, before a warning, as in PyTorch.

bool works_over_ranks(const torch::nn::Module& module) {
  const auto* layer = dynamic_cast<const nn::Synchronizable*>(&module);
  return layer != nullptr && layer->ranks() && layer->ranks()->size() > 1;
}

// A rank without inputs runs no forward, so it would not meet the others in such a layer.
void require_no_sync_batch_norm(const torch::nn::Module& module) {
  const auto require = [](const torch::nn::Module& layer, const std::string& name) {
    if (works_over_ranks(layer)) {
      throw UsageError("join: " + name +
                       " normalizes over all ranks, and a rank without inputs does not follow it; "
                       "set throw_on_early_termination, or do not synchronize batch normalization");
    }
  };
  require(module, "the module");  // By itself: it need not be held by a shared pointer.
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    require(*item.value(), "'" + item.key() + "'");
  }
}

}  // namespace

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
    if (!options.throw_on_early_termination) {
      require_no_sync_batch_norm(module_);
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
  std::int64_t steps = 0;
  errors_.run([&] {
    while (join_->shadow_forward() > 0) {
      has_most_steps = false;
      shadow_step();
      if (++steps == kManySteps) {
        TORCH_WARN("join: rank ", group_.rank(), " of ", group_.size(), " has had no inputs for ",
                   steps, " steps of the others; deal inputs out more evenly, or training is slow");
      }
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
