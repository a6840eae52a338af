#include "lockstep/parallel/buckets/gradient_bucket.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/parallel/in_place/same_view.h"

namespace lockstep::parallel {

GradientBucket::GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters,
                               Mode mode, const AllocateFlat& allocate,
                               std::unique_ptr<Reduction> reduction)
    : parameters_(plan.parameters), reduction_(std::move(reduction)), stays_(mode == Mode::kStay) {
  std::vector<BucketMemory::Strides> strides;
  for (const std::size_t index : parameters_) {
    const auto& parameter = parameters[index];
    tensors_.push_back(parameter.tensor);
    strides.push_back(parameter.strides.empty() ? strides_of_gradient(parameter.tensor)
                                                : parameter.strides);
    names_.push_back(parameter.name);
    bytes_ += parameter.tensor.nbytes();
    sparse_ = parameter.sparse;
  }
  if (sparse_ || stays_) {
    return;
  }
  // Gradients are made in their places on the CPU alone.
  const bool can_be_made_in_place = tensors_.front().is_cpu() && reduction_->leaves_gradients();
  memory_ = BucketMemory(tensors_, std::move(strides),
                         {.allocate = allocate,
                          .gives_views = mode == Mode::kViews,
                          .align_largest = can_be_made_in_place});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& grad = gradient(i);
    if (memory_.gives_views() && grad.defined()) {
      place(i).copy_(grad.detach());
      grad = place(i);
    }
  }
}

void GradientBucket::begin() {
  memory_.begin();
  postponed_.clear();
  copied_.clear();
}

void GradientBucket::require_alike(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  const at::Tensor& expected = place(i);
  if (grad.layout() != expected.layout() || grad.scalar_type() != expected.scalar_type() ||
      grad.device() != expected.device() || grad.sizes() != expected.sizes()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " + grad.toString() + ", expected " +
                     expected.toString() +
                     "; it must be like its parameter was when "
                     "DistributedDataParallel was made");
  }
}

std::size_t GradientBucket::put(std::size_t i) {
  if (sparse_) {
    put_sparse(i);
    return 0;
  }
  if (stays_) {
    return 0;
  }
  at::Tensor& grad = gradient(i);
  const at::Tensor& place = this->place(i);
  memory_.mark_put(i);
  if (!grad.defined()) {
    place.zero_();
    reduction_->made_in_place(i);
    return 0;
  }
  require_alike(i);
  if (memory_.is_in_place(i)) {
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
  const bool copy = !memory_.was_made_in_place(i);
  copy ? reduction_->copy_in(i, place, grad) : reduction_->made_in_place(i);
  if (memory_.gives_views()) {
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
    to.push_back(place(i));
  }
  reduction_->copy_all_in(to, copied_);
  if (memory_.gives_views()) {
    for (const std::size_t i : postponed_) {
      gradient(i) = place(i);
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
  return reduction_->start(contents(), memory_.places());
}

void GradientBucket::put_sparse(std::size_t i) {
  at::Tensor& grad = gradient(i);
  if (!grad.defined() || !grad.is_sparse()) {
    throw UsageError("the gradient of '" + names_[i] + "' is " +
                     (grad.defined() ? grad.toString() : "undefined") +
                     ", expected a sparse tensor, because its module was made with sparse(true)");
  }
  sparse_gradient_ = grad;
  reduction_->added_in_place(i, sparse_gradient_);
}

void GradientBucket::write_back(std::size_t i) {
  if (sparse_) {
    return;  // The gradient itself was summed.
  }
  at::Tensor& grad = gradient(i);
  if (stays_) {
    if (!grad.defined()) {
      grad = at::zeros_like(tensors_[i]);
    } else if (counts_nothing_) {  // The gradients of an empty batch may be no numbers.
      grad.detach().zero_();
    }
    return;
  }
  if (!memory_.gives_views()) {
    if (grad.defined()) {
      grad.copy_(place(i));
    } else {
      grad = torch::autograd::utils::clone_obey_contract(place(i), tensors_[i]);
    }
  } else if (!grad.defined()) {
    grad = place(i);
  } else if (!memory_.is_in_place(i)) {
    throw UsageError("the gradient of '" + names_[i] +
                     "' was exchanged for another tensor during backward, so its average would be "
                     "lost; leave .grad alone until backward() returns, or set "
                     "gradient_as_bucket_view to false");
  }
}

}  // namespace lockstep::parallel
