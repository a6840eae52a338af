#include "lockstep/data/loader/epoch_plan.h"

#include <algorithm>
#include <utility>

namespace lockstep::data {

EpochPlan::EpochPlan(std::vector<std::int64_t> indices, std::int64_t batch_size, bool drop_last,
                     const EpochSeed& seed)
    : indices_(std::move(indices)), seed_(seed) {
  const auto whole = static_cast<std::size_t>(batch_size);
  for (std::size_t begin = 0; begin < indices_.size(); begin += whole) {
    const std::size_t count = std::min(whole, indices_.size() - begin);
    if (count == whole || !drop_last) {
      ends_.push_back(begin + count);
    }
  }
}

EpochPlan::EpochPlan(const std::vector<std::vector<std::int64_t>>& batches, const EpochSeed& seed)
    : seed_(seed) {
  for (const auto& batch : batches) {
    indices_.insert(indices_.end(), batch.begin(), batch.end());
    ends_.push_back(indices_.size());
  }
}

std::span<const std::int64_t> EpochPlan::batch(std::int64_t number) const {
  const auto begin = static_cast<std::size_t>(samples_of(number));
  return std::span(indices_).subspan(begin, ends_[static_cast<std::size_t>(number)] - begin);
}

std::int64_t EpochPlan::samples_of(std::int64_t count) const {
  return count == 0 ? 0 : static_cast<std::int64_t>(ends_[static_cast<std::size_t>(count - 1)]);
}

}  // namespace lockstep::data
