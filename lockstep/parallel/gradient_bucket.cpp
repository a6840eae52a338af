#include "lockstep/parallel/gradient_bucket.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

// With the parameter's own strides where it has no gaps: autograd makes gradients like that.
at::Tensor place_for(const at::Tensor& tensor, const at::Tensor& flat, std::int64_t offset) {
  if (tensor.is_non_overlapping_and_dense()) {
    return flat.as_strided(tensor.sizes(), tensor.strides(), offset);
  }
  return flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
}

}  // namespace

GradientBucket::GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters,
                               Mode mode, const AllocateFlat& allocate)
    : parameters_(plan.parameters), mode_(mode) {
  std::int64_t elements = 0;
  for (const std::size_t index : parameters_) {
    const auto& parameter = parameters[index];
    tensors_.push_back(parameter.tensor);
    names_.push_back(parameter.name);
    elements += parameter.tensor.numel();
    bytes_ += parameter.tensor.nbytes();
    sparse_ = parameter.sparse;
  }
  if (sparse_ || mode_ == Mode::kStay) {
    return;
  }
  const auto& like = tensors_.front();
  flat_ = allocate(elements, at::TensorOptions(like.scalar_type()).device(like.device()));
  std::int64_t offset = 0;
  // Not views in autograd's eyes: an optimizer may call detach_() on a gradient.
  const at::AutoDispatchBelowADInplaceOrView no_view_tracking;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    places_.push_back(place_for(tensors_[i], flat_, offset));
    offset += tensors_[i].numel();
    at::Tensor& grad = gradient(i);
    if (mode_ == Mode::kViews && grad.defined()) {
      places_[i].copy_(grad.detach());
      grad = places_[i];
    }
  }
}

at::Tensor& GradientBucket::gradient(std::size_t i) const { return tensors_[i].mutable_grad(); }

void GradientBucket::put(std::size_t i, int ranks) {
  if (sparse_) {
    put_sparse(i, ranks);
    return;
  }
  if (mode_ == Mode::kStay) {
    return;
  }
  at::Tensor& grad = gradient(i);
  at::Tensor& place = places_[i];
  if (!grad.defined()) {
    place.zero_();
    return;
  }
  if (grad.layout() != place.layout() || grad.scalar_type() != place.scalar_type() ||
      grad.device() != place.device() || grad.sizes() != place.sizes()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " + grad.toString() + ", expected " +
                     place.toString() +
                     "; it must be like its parameter was when "
                     "DistributedDataParallel was made");
  }
  if (grad.is_alias_of(place)) {
    place.div_(ranks);
    return;
  }
  // PyTorch multiplies by the reciprocal here and divides above: the last bit can differ.
  const auto factor = at::native::wrapped_scalar_tensor(1.0 / ranks);
  if (grad.requires_grad()) {  // backward(create_graph=true): the copy has no history.
    place.copy_(grad.detach().mul(factor));
  } else {
    at::mul_out(place, grad, factor);
  }
  if (mode_ == Mode::kViews) {
    grad = place;
  }
}

void GradientBucket::put_sparse(std::size_t i, int ranks) {
  at::Tensor& grad = gradient(i);
  if (!grad.defined() || !grad.is_sparse()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " +
                     (grad.defined() ? grad.toString() : "undefined") +
                     ", expected a sparse tensor, because its module was made with sparse(true)");
  }
  flat_ = grad;
  flat_.div_(ranks);
}

void GradientBucket::give(std::size_t i) {
  if (sparse_) {
    return;  // The gradient itself was summed.
  }
  at::Tensor& grad = gradient(i);
  if (mode_ == Mode::kStay) {
    if (!grad.defined()) {
      grad = at::zeros_like(tensors_[i]);
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
  } else if (!grad.is_alias_of(places_[i])) {
    throw UsageError("the gradient of '" + names_[i] +
                     "' was exchanged for another tensor during backward, so its average would be "
                     "lost; leave .grad alone until backward() returns, or set "
                     "gradient_as_bucket_view to false");
  }
}

}  // namespace lockstep::parallel
