#include "lockstep/parallel/replica.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/parallel/autograd/backward_sink.h"
#include "lockstep/parallel/checks/same_hook.h"
#include "lockstep/parallel/checks/same_model.h"
#include "lockstep/parallel/delayed/delayed_gradients.h"
#include "lockstep/parallel/reducer.h"
#include "lockstep/parallel/reducer_options.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void reject(const std::string& why) { throw UsageError(why); }

}  // namespace

Replica::~Replica() = default;

void Replica::register_comm_hook(CommHook hook) {
  errors_.run([&] {
    if (!reducer_) {
      reject("register_comm_hook: all parameters are delayed, so a hook would get none");
    }
    if (count_) {
      reject(
          "register_comm_hook: mean_over_samples is set, and a hook divides by itself; leave one "
          "out");
    }
    reducer_->register_comm_hook(std::move(hook));
    announce_hook(group_, errors_.key());
  });
}

void Replica::require_known_parameters() const {
  if (!has_parameter_besides(module_, known_)) {
    return;
  }
  for (const auto& item : module_.named_parameters()) {
    if (item.value().requires_grad() && !known_.contains(item.value().unsafeGetTensorImpl())) {
      reject("parameter '" + item.key() +
             "' requires a gradient, and did not or was another one when the module was wrapped, "
             "so its gradients would not be averaged; wrap the module again, or name it in "
             "parameters_to_ignore when you do");
    }
  }
}

void Replica::broadcast(const std::vector<at::Tensor>& tensors, const Broadcast& how) const {
  if (!tensors.empty() && group_.size() > 1) {
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group_.process_group(), tensors, how.bytes, how.root);
  }
}

// Rank 0's; while ranks join, those of the highest rank with inputs.
void Replica::sync_buffers(bool has_inputs) {
  if (!buffers_are_due_ || !forward_sync_buffers_ || group_.size() == 1) {
    return;
  }
  const auto tensors = buffers(module_, ignored_);
  if (!tensors.empty()) {
    broadcast(tensors, {.root = join_ ? join_->common_rank(has_inputs) : 0});
  }
}

void Replica::before_forward() {
  const bool with_gradients = at::GradMode::is_enabled();
  const auto samples = std::exchange(samples_, std::nullopt);
  const auto call = device::StepRecorder::call_number();
  if (call != 0 && call != std::exchange(last_call_, call) && !join_) {
    buffers_are_due_ = true;  // What ran before a replay is not known, and others may replay.
  }
  if (with_gradients) {
    graph_ = device::Graph::recording();
    errors_.enter(Phase::kForward, stats_.steps + 1);
  }
  errors_.run([&] {
    if (delayed_ && with_gradients) {
      delayed_->before_forward();
    }
    if (!reducer_) {
      return;
    }
    if (join_ && !with_gradients) {
      reject(
          "join: a forward without gradients inside join(); ranks without inputs do not follow "
          "it, so evaluate outside");
    }
    if (join_) {
      join_->begin_forward();
    }
    if (count_ && with_gradients && *synchronizing_) {
      count_samples(samples);
    }
    if (with_gradients) {
      require_known_parameters();
      if (graph_ != nullptr && check_.is_on()) {
        reject(
            "check_replicas_every waits for the GPU, so the step cannot be recorded; set it to 0");
      }
      reducer_->before_forward();
      if (*synchronizing_) {
        check_.begin_step(stats_.steps + 1, reducer_->parameters());
      }
    }
    sync_buffers(/*has_inputs=*/true);
    if (join_) {
      join_->tell_synchronized(*synchronizing_);
    }
  });
  forward_begun_ = Clock::now();
}

void Replica::after_forward(const std::vector<at::Tensor*>& outputs) {
  forward_done_ = Clock::now();
  const bool synchronized = at::GradMode::is_enabled() && *synchronizing_;
  buffers_are_due_ = synchronized;
  if (at::GradMode::is_enabled()) {
    errors_.enter(Phase::kBackward, stats_.steps + 1);
  }
  if (delayed_ && at::GradMode::is_enabled()) {
    delayed_->after_forward();
  }
  if (!reducer_) {
    return;
  }
  if (auto* const graph = device::Graph::recording()) {
    graph->after_replay([this, synchronized, weak = std::weak_ptr(reducer_)] {
      if (weak.lock()) {
        buffers_are_due_ = synchronized;  // As behind the eager forward.
      }
    });
  }
  if (synchronized) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor* output : outputs) {
      tensors.push_back(*output);
    }
    if (join_ || count_) {
      errors_.run([&] { reducer_->set_divisor(join_ ? join_->divisor() : count_->divisor()); });
    }
    reducer_->expect_backward(tensors);
  }
  if (reducer_->needs_sink()) {
    pass_through_sink(outputs, [weak = std::weak_ptr(reducer_)] {
      if (const auto reducer = weak.lock()) {  // The graph may outlive it.
        reducer->backward_begins();
      }
    });
  }
  if (synchronized) {
    when_backward_passes(outputs, [weak = std::weak_ptr(reducer_), step = stats_.steps + 1,
                                   synchronizing = synchronizing_] {
      if (const auto reducer = weak.lock(); reducer && *synchronizing) {
        reducer->backward_passes_outputs_of(step);
      }
    });
  }
}

void Replica::finish_step(const CommunicationTimes& times) {
  if (graph_ != nullptr) {  // A step is what runs, in replays.
    // Replays write to the memory that the buckets have now, so it must be kept: an eager step may
    // give these buckets other memory.
    std::vector<at::Tensor> memory;
    for (const auto& bucket : reducer_->buckets()) {
      memory.push_back(bucket.contents());
    }
    graph_->after_replay([this, weak = std::weak_ptr(reducer_), memory = std::move(memory)] {
      if (weak.lock()) {
        buffers_are_due_ = true;
        count_step();
      }
    });
    return;
  }
  const auto now = Clock::now();
  const auto seconds = [](auto duration) {
    return std::chrono::duration<double>(duration).count();
  };
  stats_.forward_seconds += seconds(forward_done_ - forward_begun_);
  stats_.backward_seconds += seconds(now - forward_done_);
  stats_.communication_seconds += times.running.count();
  stats_.waiting_seconds += times.waiting.count();
  stats_.copied = times.copied;
  stats_.moved += times.moved;
  if (stats_.steps == 0) {
    require_same_hook(group_, errors_.key());
  }
  count_step();
  check_.end_step(reducer_->parameters());
}

void Replica::count_step() {
  ++stats_.steps;
  errors_.enter(Phase::kBetweenSteps, stats_.steps);
}

DistributedDataParallelStats Replica::stats() const {
  auto stats = stats_;
  if (!reducer_) {
    return stats;
  }
  for (const auto& bucket : reducer_->buckets()) {
    ++stats.buckets;
    stats.bytes += bucket.bytes();
  }
  return stats;
}

}  // namespace lockstep::parallel
