#include "lockstep/parallel/gradient_bucket.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

constexpr std::size_t kAlignment = 64;  // Of every tensor that LibTorch makes.

// With the parameter's own strides where it has no gaps: autograd makes gradients like that.
at::Tensor place_for(const at::Tensor& tensor, const at::Tensor& flat, std::int64_t offset) {
  if (tensor.is_non_overlapping_and_dense()) {
    return flat.as_strided(tensor.sizes(), tensor.strides(), flat.storage_offset() + offset);
  }
  return flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
}

at::Tensor ordinary_memory(std::int64_t elements, at::TensorOptions options) {
  return at::empty({elements}, options);
}

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
  const std::size_t bytes = (kAlignment - offset_of_largest % kAlignment) % kAlignment;
  return static_cast<std::int64_t>(bytes / tensors.front().element_size());
}

}  // namespace

GradientBucket::GradientBucket(const Bucket& plan, const std::vector<Parameter>& parameters,
                               Mode mode, AllocateFlat allocate, Division division)
    : parameters_(plan.parameters),
      allocate_(std::move(allocate)),
      division_(division),
      mode_(mode) {
  for (const std::size_t index : parameters_) {
    const auto& parameter = parameters[index];
    tensors_.push_back(parameter.tensor);
    names_.push_back(parameter.name);
    bytes_ += parameter.tensor.nbytes();
    sparse_ = parameter.sparse;
  }
  put_.resize(tensors_.size());
  divided_.resize(tensors_.size());
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
  const auto before = division_ == Division::kInSum ? elements_before(tensors_) : 0;
  flat_ = allocate(before + elements, at::TensorOptions(like.scalar_type()).device(like.device()))
              .narrow(0, before, elements);
  std::int64_t offset = 0;
  places_.clear();
  // Not views in autograd's eyes: an optimizer may call detach_() on a gradient.
  const at::AutoDispatchBelowADInplaceOrView no_view_tracking;
  for (const auto& tensor : tensors_) {
    places_.push_back(place_for(tensor, flat_, offset));
    offset += tensor.numel();
  }
  holders_ = flat_.storage().use_count();
}

void GradientBucket::begin() {
  put_.assign(put_.size(), false);
  moved_ = false;
}

at::Tensor& GradientBucket::gradient(std::size_t i) const { return tensors_[i].mutable_grad(); }

Lender::Loan GradientBucket::lend(std::size_t i) const {
  void* const data = places_[i].mutable_data_ptr();
  const bool usable = reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0 && !put_[i] &&
                      !moved_ && !gradient(i).defined() && places_[i].use_count() == 1 &&
                      flat_.storage().use_count() <= holders_ && !is_lent(data);
  return usable ? Lender::Loan{data, flat_.storage()} : Lender::Loan{};
}

bool GradientBucket::was_made_in_place(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  return grad.defined() && grad.layout() == at::kStrided && !grad.requires_grad() &&
         grad.const_data_ptr() == places_[i].const_data_ptr() &&
         grad.sizes() == places_[i].sizes() &&
         torch::autograd::utils::obeys_layout_contract(grad, tensors_[i]);
}

bool GradientBucket::is_lent_elsewhere(std::size_t i) const {
  return !places_.empty() && is_lent(places_[i].const_data_ptr()) && !was_made_in_place(i);
}

bool GradientBucket::is_kept_by_others(std::size_t i, const at::Tensor& made) const {
  if (places_.empty() || !is_lent(places_[i].const_data_ptr()) || !was_made_in_place(i)) {
    return false;
  }
  const at::Tensor& grad = gradient(i);
  std::size_t expected = 1;
  bool kept = grad.use_count() > 1;
  if (made.defined() && made.has_storage() && !made.is_same(grad) && made.is_alias_of(grad)) {
    ++expected;
    kept = kept || made.use_count() > 1;
    if (made.is_view()) {  // That of a linear layer is, of its transpose.
      ++expected;
      kept = kept || made._base().use_count() > 1;
    }
  }
  return kept || grad.storage().use_count() > expected;
}

std::size_t GradientBucket::move_out() {
  const auto old_flat = flat_;
  const auto old_places = places_;
  try {
    make_places(allocate_);
  } catch (const IoError&) {  // There is no more of it: sums of other memory take longer.
    make_places(ordinary_memory);
  }
  moved_ = true;
  flat_.copy_(old_flat);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    at::Tensor& grad = gradient(i);
    if (grad.defined() && grad.has_storage() && grad.is_alias_of(old_places[i])) {
      grad = places_[i];
    }
  }
  return bytes_;
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

std::size_t GradientBucket::put(std::size_t i, int ranks) {
  if (sparse_) {
    put_sparse(i, ranks);
    return 0;
  }
  if (mode_ == Mode::kStay) {
    return 0;
  }
  at::Tensor& grad = gradient(i);
  at::Tensor& place = places_[i];
  put_[i] = true;
  divided_[i] = division_ == Division::kBefore;
  if (!grad.defined()) {
    place.zero_();
    return 0;
  }
  require_alike(i);
  if (grad.is_alias_of(place)) {
    place.div_(ranks);
    divided_[i] = true;
    return 0;
  }
  const bool copy = !was_made_in_place(i);
  if (copy && division_ == Division::kInSum) {
    place.copy_(grad.detach());
  } else if (copy) {
    // PyTorch multiplies by the reciprocal here and divides above: the last bit can differ.
    const auto factor = at::native::wrapped_scalar_tensor(1.0 / ranks);
    if (grad.requires_grad()) {  // backward(create_graph=true): the copy has no history.
      place.copy_(grad.detach().mul(factor));
    } else {
      at::mul_out(place, grad, factor);
    }
  }
  if (mode_ == Mode::kViews) {
    grad = place;
  }
  return copy ? place.nbytes() : 0;
}

double GradientBucket::factor(int ranks) {
  if (std::find(divided_.begin(), divided_.end(), true) == divided_.end()) {
    return division_ == Division::kInSum ? 1.0 / ranks : 1;
  }
  for (std::size_t i = 0; i < divided_.size(); ++i) {
    if (!divided_[i]) {
      places_[i].mul_(1.0 / ranks);
      divided_[i] = true;
    }
  }
  return 1;
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
