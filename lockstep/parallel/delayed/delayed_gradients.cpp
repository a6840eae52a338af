#include "lockstep/parallel/delayed/delayed_gradients.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"
#include "lockstep/parallel/buckets/communication.h"
#include "lockstep/parallel/in_place/same_view.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError("delay_all_reduce_named_params: " + why);
}

void require_like(const at::Tensor& tensor, const at::Tensor& first, const std::string& what) {
  if (tensor.device() != first.device() || tensor.scalar_type() != first.scalar_type()) {
    refuse(what + " is " + tensor.toString() + " on " + tensor.device().str() +
           ", the first parameter " + first.toString() + " on " + first.device().str() +
           "; delay parameters of one kind");
  }
}

at::Tensor allocate(const Group& group, std::int64_t elements, const at::Tensor& like) {
  const auto options = at::TensorOptions(like.scalar_type()).device(like.device());
  return group.size() > 1 ? Communication(group).allocate(elements, options)
                          : at::empty({elements}, options);
}

}  // namespace

void require_delayable(const torch::nn::Module& module, const Delayed& delayed) {
  if (delayed.parameters.empty() != !delayed.hooked.defined()) {
    throw UsageError(
        "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same "
        "time");
  }
  if (delayed.parameters.empty()) {
    return;
  }
  const auto own = module.named_parameters();
  const auto& first = delayed.parameters.front().second;
  std::unordered_set<const void*> seen;
  for (const auto& [name, tensor] : delayed.parameters) {
    const auto* found = own.find(name);
    if (found == nullptr || !tensor.defined() || !found->is_same(tensor)) {
      refuse("'" + name +
             "' is not the module's parameter of this name; take both from "
             "named_parameters()");
    }
    if (!tensor.requires_grad()) {
      refuse("'" + name + "' requires no gradient; leave it out");
    }
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) {
      refuse("'" + name + "' is there twice; name each parameter once");
    }
    require_like(tensor, first, "'" + name + "'");
  }
  const auto& hooked = delayed.hooked;
  if (!hooked.requires_grad()) {
    refuse("param_to_hook_all_reduce requires no gradient, so it would never be ready");
  }
  if (hooked.device() != first.device()) {
    refuse("param_to_hook_all_reduce is on " + hooked.device().str() + ", the parameters on " +
           first.device().str() + "; choose one that is where they are");
  }
  if (seen.contains(hooked.unsafeGetTensorImpl())) {
    refuse(
        "param_to_hook_all_reduce is delayed itself, so its own gradient would come too late; "
        "choose one whose gradient comes after all of theirs");
  }
}

DelayedGradients::DelayedGradients(const Group& group, const Delayed& delayed, StepErrors& errors,
                                   std::function<void()> finished)
    : group_(group), hooked_(delayed.hooked), errors_(errors), finished_(std::move(finished)) {
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : delayed.parameters) {
    parameters_.push_back({.name = name, .owner = "", .tensor = tensor});
    elements += tensor.numel();
  }
  flat_ = allocate(group_, elements, parameters_.front().tensor);
  make_places();
  hooks_ = std::make_unique<GradientHooks>(
      parameters_, [this](std::size_t i, const at::Tensor& /*made*/) { on_gradient(i); });
  hook_ = hooked_.register_hook([this](const at::Tensor& /*gradient*/) { start(); });
}

void DelayedGradients::make_places() {
  std::int64_t offset = 0;
  // Not views in autograd's eyes: an optimizer may call detach_() on a gradient.
  const at::AutoDispatchBelowADInplaceOrView no_view_tracking;
  for (const auto& parameter : parameters_) {
    const auto& tensor = parameter.tensor;
    places_.push_back(flat_.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

DelayedGradients::~DelayedGradients() { hooked_.remove_hook(hook_); }

void DelayedGradients::before_forward() {
  if (device::Graph::recording() != nullptr) {
    refuse("the step is recorded, and they are summed by the host; leave the option out");
  }
  if (work_) {  // A backward that failed.
    work_->wait();
    work_.reset();
  }
  if (waits_) {
    refuse("the last backward made a gradient of '" + parameters_[*waits_].name +
           "', but none of param_to_hook_all_reduce, so it was not averaged; choose a parameter "
           "that takes part in every step");
  }
  hooks_->use_current_streams();
  if (const auto lost = hooks_->follow(); !lost.empty()) {
    refuse("parameter " + lost +
           ": it was moved after the module was wrapped; move the module "
           "before you wrap it, or wrap it again");
  }
}

void DelayedGradients::after_forward() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.defined()) {
      grad = places_[i].zero_();
    }
  }
}

// What comes now would be lost, or added while the sum runs.
void DelayedGradients::on_gradient(std::size_t parameter) {
  if (work_) {
    errors_.run([&] {
      refuse("the gradient of '" + parameters_[parameter].name +
             "' came after that of param_to_hook_all_reduce, which averages it; choose a "
             "parameter whose gradient comes after all of theirs: one of an earlier layer");
    });
  }
  waits_ = parameter;
}

// Autograd does not always add in place: not with create_graph, say.
void DelayedGradients::put(std::size_t parameter) {
  at::Tensor& grad = parameters_[parameter].tensor.mutable_grad();
  at::Tensor& place = places_[parameter];
  if (!grad.defined()) {
    place.zero_();
  } else if (shares_storage(grad, place) && is_same_view(grad, place)) {
    return;
  } else {
    place.copy_(grad.detach());
  }
  grad = place;
}

void DelayedGradients::start() {
  errors_.run([this] {
    if (work_) {  // In a pass inside another one.
      work_->wait();
    }
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      put(i);
    }
    flat_.div_(group_.size());
    work_ = group_.all_reduce(flat_);
    waits_.reset();
    when_backward_is_done([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->finish();
      }
    });
  });
}

void DelayedGradients::finish() {
  if (work_) {
    errors_.run([this] { work_->wait(); });
    work_.reset();
    finished_();
  }
}

}  // namespace lockstep::parallel
