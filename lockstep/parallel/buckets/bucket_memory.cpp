// Who else holds a bucket's memory: tensors that were allocated in it, and gradients that were
// kept.
#include "lockstep/parallel/buckets/gradient_bucket.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/parallel/buckets/same_view.h"

namespace lockstep::parallel {
namespace {

// A bucket stops giving views away after it has left this many memories to others.
constexpr std::size_t kMostLeft = 2;

}  // namespace

comm::MemorySource::Memory GradientBucket::memory_for(std::size_t i) const {
  void* const data = places_[i].mutable_data_ptr();
  const bool usable =
      mode_ == Mode::kViews && reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0 &&
      !put_[i] && !moved_ && !gradient(i).defined() && places_[i].use_count() == 1 &&
      flat_.storage().use_count() <= holders_;  // A tensor placed in it holds it, too.
  return usable ? comm::MemorySource::Memory{data, flat_.storage()} : comm::MemorySource::Memory{};
}

// A gradient that is in its place will be added to, and all who hold it must see that.
bool GradientBucket::is_kept() const {
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

GradientBucket::Move GradientBucket::leave_kept_memory() {
  if (places_.empty() || !is_kept()) {
    return {};
  }
  std::erase_if(left_, [](const auto& memory) { return memory.expired(); });
  left_.push_back(flat_.storage().getWeakStorageImpl());
  if (left_.size() > kMostLeft) {
    mode_ = Mode::kSeparate;
  }
  return {.moved = true, .copied = move()};
}

bool GradientBucket::is_used_by_another(std::size_t i) const {
  return !places_.empty() && comm::is_placed(places_[i].const_data_ptr()) && !was_made_in_place(i);
}

bool GradientBucket::is_kept_by_others(std::size_t i, const at::Tensor& made) const {
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

std::size_t GradientBucket::move_out() {
  moved_ = true;
  return move();
}

std::size_t GradientBucket::move() {
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
