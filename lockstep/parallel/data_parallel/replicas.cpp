#include "lockstep/parallel/data_parallel/replicas.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/device/stream.h"

namespace lockstep::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Makes `copies` depend on `parameter`: what they get as gradients, it gets as their sum.
class Copies : public torch::autograd::Function<Copies> {
 public:
  // A vector that autograd takes for no input.
  struct Tensors {
    std::vector<at::Tensor> list;
  };
  static variable_list forward(AutogradContext* context, const Variable& parameter,
                               const Tensors& copies) {
    context->saved_data["device"] = parameter.device();
    return copies.list;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Device device = context->saved_data["device"].toDevice();
    at::Tensor sum;
    for (const auto& gradient : gradients) {
      if (gradient.defined()) {
        const auto here = gradient.to(device);
        sum = sum.defined() ? sum + here : here;
      }
    }
    return {sum, Variable()};
  }
};

void copy_to(const at::Tensor& original, const at::Tensor& copy) {
  copy.detach_();  // From the step before.
  copy.set_data(original.detach().to(copy.device(), /*non_blocking=*/true, /*copy=*/true));
}

void require_on(const torch::nn::Module& module, at::Device device) {
  const auto check = [&](const auto& named) {
    for (const auto& item : named) {
      if (item.value().device() != device) {
        throw UsageError("DataParallel: '" + item.key() + "' is on " + item.value().device().str() +
                         ", expected all parameters and buffers on the first device, " +
                         device.str() + "; call module->to(device) before wrapping it");
      }
    }
  };
  check(module.named_parameters());
  check(module.named_buffers());
}

// LibTorch's modules initialise their parameters anew when they are cloned.
class KeepRandomState {
 public:
  KeepRandomState() {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  KeepRandomState(const KeepRandomState&) = delete;
  KeepRandomState& operator=(const KeepRandomState&) = delete;
  ~KeepRandomState() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_;
};

std::shared_ptr<torch::nn::Module> clone_of(const torch::nn::Module& module, at::Device device) {
  try {
    return module.clone(device);
  } catch (const std::exception& error) {
    throw UsageError("DataParallel: " + module.name() + " cannot be cloned to " + device.str() +
                     ": " + error.what() +
                     "\nHINT: derive it, and the modules in it, from torch::nn::Cloneable");
  }
}

// LibTorch's threads for one operation on the CPU are dealt out to replicas that run at the same
// time: each has as many for itself. LibTorch also remembers the number for threads that it has not
// seen yet, so the caller's is told to it again at the end.
class SharedThreads {
 public:
  SharedThreads(std::size_t replicas, at::Device device)
      : all_(at::get_num_threads()),
        share_(device.is_cpu() ? std::max(1, all_ / static_cast<int>(replicas)) : all_) {}
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;
  ~SharedThreads() {
    if (share_ != all_) {
      at::set_num_threads(all_);
    }
  }
  // To be called in the thread of each replica: the number belongs to a thread.
  void take_share() const {
    if (share_ != all_) {
      at::set_num_threads(share_);
    }
  }

 private:
  int all_;
  int share_;
};

void require_dimension(const at::Tensor& tensor, std::int64_t dim) {
  if (dim < -tensor.dim() || dim >= tensor.dim()) {
    throw UsageError("DataParallel: batches are dealt out along dim " + std::to_string(dim) +
                     ", but an argument has " + std::to_string(tensor.dim()) +
                     " dimensions; set dim to the one that counts samples");
  }
}

// How many hold each of its tensors: a graph that needs one for its backward is among them.
std::vector<std::size_t> uses_of(const torch::nn::Module& module) {
  std::vector<std::size_t> uses;
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const auto& tensor : tensors) {
      uses.push_back(tensor.use_count());
    }
  }
  return uses;
}

}  // namespace

Replicas::Replicas(std::shared_ptr<torch::nn::Module> module, std::vector<at::Device> devices)
    : devices_(std::move(devices)) {
  require_on(*module, devices_.front());
  replicas_.push_back({std::move(module), {}});
  while (replicas_.size() < devices_.size()) {
    replicas_.push_back(clone_to(devices_[replicas_.size()]));
  }
}

Replicas::Replica Replicas::clone_to(at::Device device) const {
  const KeepRandomState keep;
  auto clone = clone_of(*replicas_.front().module, device);
  return {clone, uses_of(*clone)};
}

void Replicas::replicate(std::size_t count) {
  const auto& module = *replicas_.front().module;
  const auto parameters = module.parameters();
  const auto buffers = module.buffers();
  const auto originals = module.modules();
  std::vector<Copies::Tensors> copies(parameters.size());
  for (std::size_t replica = 1; replica < count; ++replica) {
    auto& [own, uses] = replicas_[replica];
    if (uses_of(*own) != uses) {
      replicas_[replica] = clone_to(devices_[replica]);
    }
    const auto own_parameters = own->parameters();
    const auto own_buffers = own->buffers();
    const auto own_modules = own->modules();
    if (own_parameters.size() != parameters.size() || own_buffers.size() != buffers.size() ||
        own_modules.size() != originals.size()) {
      throw UsageError(
          "DataParallel: the module has other parameters, buffers or children than when it was "
          "wrapped; wrap it again");
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      copy_to(parameters[i], own_parameters[i]);
      copies[i].list.push_back(own_parameters[i]);
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      copy_to(buffers[i], own_buffers[i]);
    }
    for (std::size_t i = 0; i < originals.size(); ++i) {  // Parents come before their children.
      own_modules[i]->train(originals[i]->is_training());
    }
  }
  for (std::size_t i = 0; i < parameters.size() && count > 1; ++i) {
    if (at::GradMode::is_enabled() && parameters[i].requires_grad()) {
      Copies::apply(parameters[i], copies[i]);
    }
  }
}

std::vector<at::Tensor> scatter(const at::Tensor& tensor, std::span<const at::Device> devices,
                                std::int64_t dim) {
  const bool whole = !tensor.defined() || tensor.dim() == 0;
  if (!whole) {
    require_dimension(tensor, dim);
  }
  auto pieces = whole ? std::vector(devices.size(), tensor)
                      : tensor.chunk(static_cast<std::int64_t>(devices.size()), dim);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].defined()) {
      pieces[i] = pieces[i].to(devices[i], /*non_blocking=*/true);
    }
  }
  return pieces;
}

at::Tensor gather(const std::vector<at::Tensor>& pieces, at::Device device, std::int64_t dim) {
  std::vector<at::Tensor> here;
  for (const auto& piece : pieces) {
    if (!piece.defined()) {
      return {};
    }
    if (piece.dim() == 0) {
      TORCH_WARN_ONCE(
          "DataParallel: an output is a single number on each device; they are collected as a "
          "vector, so take its mean");
    }
    here.push_back((piece.dim() == 0 ? piece.unsqueeze(0) : piece).to(device));
  }
  return at::cat(here, pieces.front().dim() == 0 ? 0 : dim);
}

void parallel_apply(std::size_t count, std::span<const at::Device> devices,
                    const std::function<void(std::size_t replica)>& apply) {
  const at::ThreadLocalState state;
  std::vector<c10::Stream> streams;  // The caller's: what it started there comes first.
  for (std::size_t replica = 0; replica < count; ++replica) {
    streams.push_back(device::current_stream(devices[replica]));
  }
  std::vector<std::exception_ptr> errors(count);
  const auto one = [&](std::size_t replica) noexcept {
    try {
      const at::ThreadLocalStateGuard as_caller(state);
      const c10::StreamGuard guard(streams[replica]);
      apply(replica);
    } catch (c10::Error& error) {
      error.add_context("DataParallel: in replica " + std::to_string(replica) + " on " +
                        devices[replica].str());
      errors[replica] = std::current_exception();
    } catch (...) {
      errors[replica] = std::current_exception();
    }
  };
  if (count == 1) {
    one(0);
  } else if (count > 1) {
    const SharedThreads threads(count, devices.front());
    std::vector<std::jthread> running;
    for (std::size_t replica = 0; replica < count; ++replica) {
      running.emplace_back([&, replica] {
        threads.take_share();
        one(replica);
      });
    }
  }
  for (const auto& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace lockstep::parallel
