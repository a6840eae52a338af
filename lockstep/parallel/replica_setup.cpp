// The part of Replica that wraps a module.
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/parallel/checks/same_model.h"
#include "lockstep/parallel/delayed/delayed_gradients.h"
#include "lockstep/parallel/reducer_options.h"
#include "lockstep/parallel/replica.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void refuse_to_wrap(const std::string& why) { throw UsageError(why); }

// What ranks exchange lies there. In the same order on all ranks; a part may be on the CPU.
std::set<at::DeviceType> devices_of(const torch::nn::Module& module,
                                    const std::set<std::string>& ignored, const Delayed& delayed) {
  std::set<at::DeviceType> devices;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : tensors) {
      if (!ignored.contains(item.key())) {
        devices.insert(item.value().device().type());
      }
    }
  }
  for (const auto& [name, tensor] : delayed.parameters) {
    devices.insert(tensor.device().type());
  }
  return devices;
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
    if (!group_.is_member()) {
      refuse_to_wrap("this process is no member of the group");
    }
    const Delayed delayed{options.delay_all_reduce_named_params, options.param_to_hook_all_reduce};
    require_delayable(module_, delayed);
    for (const auto& item : delayed.parameters) {
      ignored_.insert(item.first);
    }
    auto parameters = managed_parameters(module_, ignored_);
    if (parameters.empty() && delayed.parameters.empty()) {
      refuse_to_wrap(
          "the module has no parameter that requires a gradient, so there is nothing to average");
    }
    remember(parameters);
    choose_devices(options);
    const auto chosen = reducer_options(options, group_);
    if (!delayed.parameters.empty() && options.mean_over_samples) {
      refuse_to_wrap("mean_over_samples does not weigh delayed parameters; leave one of both out");
    }
    for (const auto device : devices_of(module_, ignored_, delayed)) {
      group_.meet("DistributedDataParallel", device);
    }
    if (!delayed.parameters.empty()) {
      delay(delayed, chosen);
    }
    if (!parameters.empty()) {
      make_reducer(std::move(parameters), options, chosen);
    }
  });
}

void Replica::remember(const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    known_.insert(parameter.tensor.unsafeGetTensorImpl());
  }
  for (const auto& item : module_.named_parameters()) {
    if (ignored_.contains(item.key())) {
      known_.insert(item.value().unsafeGetTensorImpl());
    }
  }
}

void Replica::make_reducer(std::vector<Parameter> parameters,
                           const DistributedDataParallelOptions& options,
                           const ReducerOptions& chosen) {
  if (options.init_sync) {
    require_same_model(group_, parameters, named_buffers(module_, ignored_), errors_.key());
    broadcast(states(module_, ignored_), {});
  }
  reducer_ =
      std::make_shared<Reducer>(group_, std::move(parameters), chosen, errors_,
                                [this](const CommunicationTimes& times) { finish_step(times); });
  if (options.mean_over_samples) {
    count_.emplace(group_, reducer_->parameters().front().tensor.device());
  }
}

// As PyTorch, which takes its cap of MiB for one of bytes here: nearly each parameter travels
// alone, and so it must where ranks are Python's.
void Replica::delay(const Delayed& delayed, const ReducerOptions& chosen) {
  std::vector<at::Tensor> tensors;
  for (const auto& item : delayed.parameters) {
    tensors.push_back(item.second.detach());
  }
  const auto cap = *std::max_element(chosen.limits.begin(), chosen.limits.end());
  broadcast(tensors, {.bytes = cap >> 20});
  delayed_ = std::make_shared<DelayedGradients>(group_, delayed, errors_, [this] {
    if (!reducer_) {
      count_step();
    }
  });
}

void Replica::register_optimizer_in_backward(SteppedInBackward optimizer) {
  errors_.run([&] {
    if (steps_in_backward_) {
      refuse_to_wrap("register_optimizer_in_backward: there is an optimizer already");
    }
    if (delayed_) {
      refuse_to_wrap(
          "register_optimizer_in_backward: parameters are delayed, so their gradients are not "
          "there when the step is made; do not set delay_all_reduce_named_params");
    }
    std::unordered_set<const void*> in_buckets;
    for (const auto& parameter : reducer_->parameters()) {
      in_buckets.insert(parameter.tensor.unsafeGetTensorImpl());
    }
    std::erase_if(optimizer.parameters, [&](const at::Tensor& parameter) {
      return in_buckets.contains(parameter.unsafeGetTensorImpl());
    });
    reducer_->step_in_backward(std::move(optimizer.step), std::move(optimizer.parameters));
    steps_in_backward_ = true;
  });
}

void Replica::choose_devices(const DistributedDataParallelOptions& options) {
  if (options.device_ids.empty() && !options.output_device) {
    return;
  }
  if (options.device_ids.size() > 1) {
    refuse_to_wrap("device_ids has " + std::to_string(options.device_ids.size()) +
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
    refuse_to_wrap(
        "device_ids and output_device are for a module on one GPU, output_device only together "
        "with device_ids; this one's parameters are on " +
        list + "; leave both out, and put inputs where forward expects them");
  }
  input_device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device_ids.front()));
  output_device_ = at::Device(
      at::kCUDA,
      static_cast<c10::DeviceIndex>(options.output_device.value_or(options.device_ids.front())));
}

}  // namespace lockstep::parallel
