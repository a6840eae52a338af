#include "lockstep/parallel/replica.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"
#include "lockstep/parallel/autograd/backward_sink.h"
#include "lockstep/parallel/checks/same_model.h"
#include "lockstep/parallel/reducer.h"

namespace lockstep::parallel {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;  // Python DDP's.

[[noreturn]] void reject(const std::string& why) { throw UsageError(why); }

std::size_t bytes_of(double mebibytes) {
  const double bytes = mebibytes * 1024 * 1024;
  if (!(bytes >= 1) || bytes > 1e18) {
    reject("a bucket cap is " + std::to_string(mebibytes) +
           " MiB, expected more than 0 and a size of memory");
  }
  return static_cast<std::size_t>(bytes);
}

ReadinessKind readiness_of(const DistributedDataParallelOptions& options) {
  return options.static_graph             ? ReadinessKind::kStaticGraph
         : options.find_unused_parameters ? ReadinessKind::kFindUnused
                                          : ReadinessKind::kAll;
}

ReducerOptions reducer_options(const DistributedDataParallelOptions& options, const Group& group) {
  using Mode = GradientBucket::Mode;
  ReducerOptions chosen{
      .readiness = readiness_of(options),
      .buckets = {.mode = options.gradient_as_bucket_view ? Mode::kViews : Mode::kSeparate,
                  .allocate_in_buckets = options.allocate_in_buckets}};
  chosen.mode_with_hook = chosen.buckets.mode;
  if (group.size() == 1 && !options.reduce_alone) {
    chosen.buckets.mode = Mode::kStay;
  }
  if (!options.bucket_cap_mb_list.empty()) {
    if (options.bucket_cap_mb) {
      reject("both bucket_cap_mb and bucket_cap_mb_list are set, expected one of them");
    }
    chosen.limits.clear();
    for (const double cap : options.bucket_cap_mb_list) {
      chosen.limits.push_back(bytes_of(cap));
    }
    chosen.first_limits = chosen.limits;
    return chosen;
  }
  if (options.bucket_cap_mb) {
    chosen.limits = {bytes_of(*options.bucket_cap_mb)};
  }
  // Before the order of the gradients is known, one bucket: a guess could send it too early.
  chosen.first_limits = chosen.readiness == ReadinessKind::kFindUnused
                            ? chosen.limits
                            : std::vector<std::size_t>{std::numeric_limits<std::int64_t>::max()};
  return chosen;
}

std::vector<Parameter> parameters_of(const torch::nn::Module& module, const Group& group,
                                     const std::set<std::string>& ignored) {
  if (!group.is_member()) {
    reject("this process is no member of the group");
  }
  auto parameters = managed_parameters(module, ignored);
  if (parameters.empty()) {
    reject("the module has no parameter that requires a gradient, so there is nothing to average");
  }
  return parameters;
}

}  // namespace

Replica::Replica(const torch::nn::Module& module, const Group& group,
                 const DistributedDataParallelOptions& options)
    : module_(module),
      group_(group),
      ignored_(options.parameters_to_ignore),
      forward_sync_buffers_(options.forward_sync_buffers),
      errors_(group, group.next_name("ddp")),
      check_(group, errors_.key(), options.check_replicas_every) {
  errors_.run([&] {
    auto parameters = parameters_of(module_, group_, ignored_);
    for (const auto& parameter : parameters) {
      known_.insert(parameter.tensor.unsafeGetTensorImpl());
    }
    for (const auto& item : module_.named_parameters()) {
      if (ignored_.contains(item.key())) {
        known_.insert(item.value().unsafeGetTensorImpl());
      }
    }
    choose_devices(options);
    const auto chosen = reducer_options(options, group_);
    if (options.init_sync) {
      require_same_model(group_, parameters, named_buffers(module_, ignored_), errors_.key());
      broadcast(states(module_, ignored_));
    }
    reducer_ =
        std::make_shared<Reducer>(group_, std::move(parameters), chosen, errors_,
                                  [this](const CommunicationTimes& times) { finish_step(times); });
    if (options.mean_over_samples) {
      count_.emplace(group_, reducer_->parameters().front().tensor.device());
    }
  });
}

Replica::~Replica() = default;

void Replica::register_comm_hook(CommHook hook) {
  errors_.run([&] {
    if (count_) {
      reject(
          "register_comm_hook: mean_over_samples is set, and a hook divides by itself; leave one "
          "out");
    }
    reducer_->register_comm_hook(std::move(hook));
  });
}

void Replica::choose_devices(const DistributedDataParallelOptions& options) {
  if (options.device_ids.empty() && !options.output_device) {
    return;
  }
  if (options.device_ids.size() > 1) {
    reject("device_ids has " + std::to_string(options.device_ids.size()) +
           " entries, expected at most one: a process has one replica");
  }
  std::set<std::string> devices;
  for (const auto& parameter : module_.parameters()) {
    devices.insert(parameter.device().str());
  }
  const bool on_one_gpu = devices.size() == 1 && module_.parameters().front().is_cuda();
  if (!on_one_gpu || options.device_ids.empty()) {
    std::string list;
    for (const auto& device : devices) {
      list += (list.empty() ? "" : ", ") + device;
    }
    reject(
        "device_ids and output_device are for a module on one GPU, output_device only together "
        "with device_ids; this one's parameters are on " +
        list + "; leave both out, and put inputs where forward expects them");
  }
  input_device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device_ids.front()));
  output_device_ = at::Device(
      at::kCUDA,
      static_cast<c10::DeviceIndex>(options.output_device.value_or(options.device_ids.front())));
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

void Replica::broadcast(const std::vector<at::Tensor>& tensors, int root) const {
  if (!tensors.empty() && group_.size() > 1) {
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group_.process_group(), tensors, kBroadcastBytes, root);
  }
}

// Rank 0's; while ranks join, those of the highest rank with inputs.
void Replica::sync_buffers(bool has_inputs) {
  if (!buffers_are_due_ || !forward_sync_buffers_ || group_.size() == 1) {
    return;
  }
  const auto tensors = buffers(module_, ignored_);
  if (!tensors.empty()) {
    broadcast(tensors, join_ ? join_->common_rank(has_inputs) : 0);
  }
}

void Replica::before_forward() {
  const bool with_gradients = at::GradMode::is_enabled();
  const auto samples = std::exchange(samples_, std::nullopt);
  if (with_gradients) {
    graph_ = device::Graph::recording();
    errors_.enter(Phase::kForward, stats_.steps + 1);
  }
  errors_.run([&] {
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
    graph_->after_replay([this, weak = std::weak_ptr(reducer_)] {
      if (weak.lock()) {
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
  count_step();
  check_.end_step(reducer_->parameters());
}

void Replica::count_step() {
  ++stats_.steps;
  errors_.enter(Phase::kBetweenSteps, stats_.steps);
}

DistributedDataParallelStats Replica::stats() const {
  auto stats = stats_;
  for (const auto& bucket : reducer_->buckets()) {
    ++stats.buckets;
    stats.bytes += bucket.bytes();
  }
  return stats;
}

}  // namespace lockstep::parallel
