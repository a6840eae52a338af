#include "lockstep/parallel/in_place/gradient_placement.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::parallel {
namespace {

// Copying a gradient smaller than this is as fast as guessing its place.
constexpr std::size_t kLeastBytes = std::size_t{32} << 10;

constexpr std::uint64_t kPause = 4;  // Passes after a first wrong guess; it doubles.
constexpr int kMostDoublings = 20;

}  // namespace

GradientPlacement::GradientPlacement(std::vector<std::size_t> bytes, Callbacks callbacks)
    : bytes_(std::move(bytes)), callbacks_(std::move(callbacks)), avoided_(bytes_.size()) {
  std::copy_if(bytes_.begin(), bytes_.end(), std::inserter(sizes_, sizes_.end()),
               [](std::size_t size) { return size >= kLeastBytes; });
}

void GradientPlacement::begin(const std::shared_ptr<GradientPlacement>& places) {
  const auto other = comm::memory_source();
  if (places->sizes_.empty() || at::GradMode::is_enabled() || !comm::placement_is_on() ||
      (other && other != places && other->is_busy())) {
    return;
  }
  places->open_ = true;
  places->pass_ = places->callbacks_.current_pass();
  ++places->passes_;
  places->next_ = 0;
  places->seen_.clear();
  places->made_.clear();
  comm::set_memory_source(places);
}

void GradientPlacement::end() {
  if (!open_) {
    return;
  }
  close();
  if (!seen_.empty()) {  // Else gradients were added to those of the pass before.
    expected_ = std::move(seen_);
  }
}

void GradientPlacement::close() {
  open_ = false;
  if (comm::memory_source().get() == this) {
    comm::set_memory_source(nullptr);
  }
}

bool GradientPlacement::asks() {
  if (callbacks_.current_pass() < 0) {
    close();
  }
  return open_;
}

bool GradientPlacement::is_busy() const { return open_ && callbacks_.current_pass() == pass_; }

void GradientPlacement::avoid(std::size_t parameter) {
  auto& avoided = avoided_[parameter];
  avoided.until = passes_ + (kPause << std::min(avoided.times++, kMostDoublings));
}

void GradientPlacement::gradient_made(std::size_t parameter, const at::Tensor& gradient) {
  if (!open_ || bytes_[parameter] < kLeastBytes) {
    return;
  }
  const void* const data =
      gradient.defined() && gradient.layout() == at::kStrided ? gradient.const_data_ptr() : nullptr;
  std::size_t nth = 0;
  std::size_t found = made_.size();
  for (const auto& made : made_) {
    if (made.bytes == bytes_[parameter]) {
      found = made.data == data ? nth : found;  // The last one: earlier ones are gone.
      ++nth;
    }
  }
  if (found < made_.size()) {
    seen_.push_back({parameter, found});
  }
  made_.clear();
  const auto expected =
      std::find_if(expected_.begin() + static_cast<std::ptrdiff_t>(next_), expected_.end(),
                   [&](const Allocation& allocation) { return allocation.parameter == parameter; });
  if (expected != expected_.end()) {
    next_ = static_cast<std::size_t>(expected - expected_.begin()) + 1;
  }
}

comm::MemorySource::Memory GradientPlacement::memory_for(std::size_t bytes) {
  if (!asks() || next_ == expected_.size()) {
    return {};
  }
  const auto [parameter, nth] = expected_[next_];
  if (bytes != bytes_[parameter] || passes_ <= avoided_[parameter].until) {
    return {};
  }
  const auto before = static_cast<std::size_t>(std::count_if(
      made_.begin(), made_.end(), [&](const Made& made) { return made.bytes == bytes; }));
  return before == nth ? callbacks_.place(parameter) : Memory{};
}

void GradientPlacement::made(const void* data, std::size_t bytes) {
  if (asks() && sizes_.contains(bytes)) {
    made_.push_back({data, bytes});
  }
}

}  // namespace lockstep::parallel
