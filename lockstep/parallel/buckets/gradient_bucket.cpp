#include "lockstep/parallel/buckets/gradient_bucket.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/parallel/buckets/same_view.h"

namespace lockstep::parallel {
namespace {

// Elements to leave free at the beginning so that the largest gradient can be made in its place.
std::int64_t elements_before(const std::vector<at::Tensor>& tensors) {
  std::size_t offset = 0;
  std::size_t largest = 0;
  std::size_t offset_of_largest = 0;
  for (const auto& tensor : tensors) {
    if (tensor.nbytes() > largest) {
      largest = tensor.nbytes();
      offset_of_largest = offset;
    }
    offset += tensor.nbytes();
  }
  const std::size_t bytes =
      (kTensorAlignment - offset_of_largest % kTensorAlignment) % kTensorAlignment;
  return static_cast<std::int64_t>(bytes / tensors.front().element_size());
}

}  // namespace

GradientBucket::GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters,
                               Mode mode, AllocateFlat allocate,
                               std::unique_ptr<Reduction> reduction)
    : parameters_(plan.parameters),
      allocate_(std::move(allocate)),
      reduction_(std::move(reduction)),
      mode_(mode) {
  for (const std::size_t index : parameters_) {
    const auto& parameter = parameters[index];
    tensors_.push_back(parameter.tensor);
    strides_.push_back(parameter.strides.empty() ? strides_of_gradient(parameter.tensor)
                                                 : parameter.strides);
    names_.push_back(parameter.name);
    bytes_ += parameter.tensor.nbytes();
    sparse_ = parameter.sparse;
  }
  put_.resize(tensors_.size());
  if (sparse_ || mode_ == Mode::kStay) {
    return;
  }
  make_places(allocate_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& grad = gradient(i);
    if (mode_ == Mode::kViews && grad.defined()) {
      places_[i].copy_(grad.detach());
      grad = places_[i];
    }
  }
}

void GradientBucket::make_places(const AllocateFlat& allocate) {
  const auto& like = tensors_.front();
  const auto elements = static_cast<std::int64_t>(bytes_ / like.element_size());
  // Gradients are made in their places on the CPU alone.
  const bool on_cpu = like.is_cpu();
  const auto before = on_cpu && reduction_->leaves_gradients() ? elements_before(tensors_) : 0;
  flat_ = allocate(before + elements, at::TensorOptions(like.scalar_type()).device(like.device()))
              .narrow(0, before, elements);
  std::int64_t offset = 0;
  places_.clear();
  // Not views in autograd's eyes: an optimizer may call detach_() on a gradient.
  const at::AutoDispatchBelowADInplaceOrView no_view_tracking;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    places_.push_back(
        flat_.as_strided(tensors_[i].sizes(), strides_[i], flat_.storage_offset() + offset));
    offset += tensors_[i].numel();
  }
  holders_ = flat_.storage().use_count();
}

void GradientBucket::begin() {
  put_.assign(put_.size(), false);
  postponed_.clear();
  copied_.clear();
  moved_ = false;
}

at::Tensor& GradientBucket::gradient(std::size_t i) const { return tensors_[i].mutable_grad(); }

bool GradientBucket::is_in_place(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  return shares_storage(grad, places_[i]) && is_same_view(grad, places_[i]);
}

// The parameter's current strides do not matter: what travels has the strides of the place.
bool GradientBucket::was_made_in_place(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  return grad.defined() && grad.layout() == at::kStrided && !grad.requires_grad() &&
         is_same_view(grad, places_[i]);
}

void GradientBucket::require_alike(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  const at::Tensor& place = places_[i];
  if (grad.layout() != place.layout() || grad.scalar_type() != place.scalar_type() ||
      grad.device() != place.device() || grad.sizes() != place.sizes()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " + grad.toString() + ", expected " +
                     place.toString() +
                     "; it must be like its parameter was when "
                     "DistributedDataParallel was made");
  }
}

std::size_t GradientBucket::put(std::size_t i) {
  if (sparse_) {
    put_sparse(i);
    return 0;
  }
  if (mode_ == Mode::kStay) {
    return 0;
  }
  at::Tensor& grad = gradient(i);
  at::Tensor& place = places_[i];
  put_[i] = true;
  if (!grad.defined()) {
    place.zero_();
    reduction_->made_in_place(i);
    return 0;
  }
  require_alike(i);
  if (is_in_place(i)) {
    reduction_->added_in_place(i, place);
    return 0;
  }
  if (shares_storage(grad, place)) {  // Another view: it would change while it is read.
    grad = grad.clone();
  }
  if (grad.is_cuda() && !grad.requires_grad()) {
    postponed_.push_back(i);
    reduction_->made_in_place(i);
    return place.nbytes();
  }
  const bool copy = !was_made_in_place(i);
  copy ? reduction_->copy_in(i, place, grad) : reduction_->made_in_place(i);
  if (mode_ == Mode::kViews) {
    grad = place;
  }
  return copy ? place.nbytes() : 0;
}

// Kernels for single gradients take longer to start than to run.
void GradientBucket::copy_postponed() {
  if (postponed_.empty()) {
    return;
  }
  std::vector<at::Tensor> to;
  for (const std::size_t i : postponed_) {
    copied_.push_back(gradient(i));
    to.push_back(places_[i]);
  }
  reduction_->copy_all_in(to, copied_);
  if (mode_ == Mode::kViews) {
    for (const std::size_t i : postponed_) {
      gradient(i) = places_[i];
    }
  }
  postponed_.clear();
}

void GradientBucket::set_divisor(double divisor) {
  counts_nothing_ = std::isinf(divisor);
  reduction_->set_divisor(divisor);
}

Reduction::WorkPointer GradientBucket::reduce() {
  copy_postponed();
  return reduction_->start(flat_, places_);
}

void GradientBucket::put_sparse(std::size_t i) {
  at::Tensor& grad = gradient(i);
  if (!grad.defined() || !grad.is_sparse()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " +
                     (grad.defined() ? grad.toString() : "undefined") +
                     ", expected a sparse tensor, because its module was made with sparse(true)");
  }
  flat_ = grad;
  reduction_->added_in_place(i, flat_);
}

void GradientBucket::write_back(std::size_t i) {
  if (sparse_) {
    return;  // The gradient itself was summed.
  }
  at::Tensor& grad = gradient(i);
  if (mode_ == Mode::kStay) {
    if (!grad.defined()) {
      grad = at::zeros_like(tensors_[i]);
    } else if (counts_nothing_) {  // The gradients of an empty batch may be no numbers.
      grad.detach().zero_();
    }
    return;
  }
  if (mode_ == Mode::kSeparate) {
    if (grad.defined()) {
      grad.copy_(places_[i]);
    } else {
      grad = torch::autograd::utils::clone_obey_contract(places_[i], tensors_[i]);
    }
  } else if (!grad.defined()) {
    grad = places_[i];
  } else if (!is_in_place(i)) {
    throw UsageError("the gradient of '" + names_[i] +
                     "' was exchanged for another tensor during backward, so its average would be "
                     "lost; leave .grad alone until backward() returns, or set "
                     "gradient_as_bucket_view to false");
  }
}

}  // namespace lockstep::parallel
