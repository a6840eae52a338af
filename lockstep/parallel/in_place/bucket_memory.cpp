#include "lockstep/parallel/in_place/bucket_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/in_place/same_view.h"

namespace lockstep::parallel {
namespace {

constexpr std::size_t kTensorAlignment = 64;  // LibTorch aligns all tensors so.

// A bucket stops giving views away after it has left this many memories to others.
constexpr std::size_t kMostLeft = 2;

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

BucketMemory::BucketMemory(std::vector<at::Tensor> parameters, std::vector<Strides> strides,
                           Options options)
    : parameters_(std::move(parameters)),
      strides_(std::move(strides)),
      allocate_(std::move(options.allocate)),
      gives_views_(options.gives_views),
      align_largest_(options.align_largest),
      put_(parameters_.size()) {
  for (const auto& parameter : parameters_) {
    bytes_ += parameter.nbytes();
  }
  make_places(allocate_);
}

void BucketMemory::make_places(const AllocateFlat& allocate) {
  const auto& like = parameters_.front();
  const auto elements = static_cast<std::int64_t>(bytes_ / like.element_size());
  const auto before = align_largest_ ? elements_before(parameters_) : 0;
  flat_ = allocate(before + elements, at::TensorOptions(like.scalar_type()).device(like.device()))
              .narrow(0, before, elements);
  std::int64_t offset = 0;
  places_.clear();
  // Not views in autograd's eyes: an optimizer may call detach_() on a gradient.
  const at::AutoDispatchBelowADInplaceOrView no_view_tracking;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    places_.push_back(
        flat_.as_strided(parameters_[i].sizes(), strides_[i], flat_.storage_offset() + offset));
    offset += parameters_[i].numel();
  }
  holders_ = flat_.storage().use_count();
}

void BucketMemory::begin() {
  put_.assign(put_.size(), false);
  moved_ = false;
}

bool BucketMemory::is_in_place(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  return shares_storage(grad, places_[i]) && is_same_view(grad, places_[i]);
}

// The parameter's current strides do not matter: what travels has the strides of the place.
bool BucketMemory::was_made_in_place(std::size_t i) const {
  const at::Tensor& grad = gradient(i);
  return grad.defined() && grad.layout() == at::kStrided && !grad.requires_grad() &&
         is_same_view(grad, places_[i]);
}

comm::MemorySource::Memory BucketMemory::memory_for(std::size_t i) const {
  if (!gives_views() || put_[i] || moved_ || gradient(i).defined()) {
    return {};
  }
  void* const data = places_[i].mutable_data_ptr();
  const bool usable = reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0 &&
                      places_[i].use_count() == 1 &&
                      // A tensor placed in it holds it, too.
                      flat_.storage().use_count() <= holders_;
  return usable ? comm::MemorySource::Memory{data, flat_.storage()} : comm::MemorySource::Memory{};
}

// A gradient that is in its place will be added to, and all who hold it must see that.
bool BucketMemory::is_kept() const {
  bool to_be_overwritten = false;
  std::size_t holders = holders_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (is_in_place(i)) {  // After zero_grad(false) as a tensor of its own.
      holders += gradient(i).is_same(places_[i]) ? 0 : 1;
      continue;
    }
    if (places_[i].use_count() > 1) {
      return true;
    }
    to_be_overwritten = true;
  }
  return to_be_overwritten && flat_.storage().use_count() > holders;
}

BucketMemory::Move BucketMemory::leave_if_kept() {
  if (places_.empty() || !is_kept()) {
    return {};
  }
  std::erase_if(left_, [](const auto& memory) { return memory.expired(); });
  left_.push_back(flat_.storage().getWeakStorageImpl());
  if (left_.size() > kMostLeft) {
    gives_views_ = false;
  }
  return {.moved = true, .copied = move()};
}

bool BucketMemory::is_used_by_another(std::size_t i) const {
  return !places_.empty() && comm::is_placed(places_[i].const_data_ptr()) && !was_made_in_place(i);
}

bool BucketMemory::is_kept_by_others(std::size_t i, const at::Tensor& made) const {
  if (places_.empty() || !comm::is_placed(places_[i].const_data_ptr()) || !was_made_in_place(i)) {
    return false;
  }
  const at::Tensor& grad = gradient(i);
  std::size_t expected = 1;
  bool kept = grad.use_count() > 1;
  if (made.defined() && made.has_storage() && !made.is_same(grad) && made.is_alias_of(grad)) {
    ++expected;
    kept = kept || made.use_count() > 1;
    if (made.is_view()) {  // A linear layer's is one, of its transpose.
      ++expected;
      kept = kept || made._base().use_count() > 1;
    }
  }
  return kept || grad.storage().use_count() > expected;
}

std::size_t BucketMemory::move_out() {
  moved_ = true;
  return move();
}

std::size_t BucketMemory::move() {
  const auto old = std::exchange(places_, {});
  try {
    make_places(allocate_);
  } catch (const IoError&) {  // There is no more of it: sums of other memory take longer.
    make_places([](auto elements, auto options) { return at::empty({elements}, options); });
  }
  std::size_t copied = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    at::Tensor& grad = gradient(i);
    const bool is_there = shares_storage(grad, old[i]) && is_same_view(grad, old[i]);
    if (put_[i] || is_there) {
      places_[i].copy_(old[i]);
      copied += places_[i].nbytes();
    }
    if (is_there) {
      grad = places_[i];
    }
  }
  return copied;
}

}  // namespace lockstep::parallel
