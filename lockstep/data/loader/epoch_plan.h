// Which samples make which batch of an epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

class EpochPlan {
 public:
  // Batches of `batch_size` indices, in their order; the last has what is left, or is left out.
  EpochPlan(std::vector<std::int64_t> indices, std::int64_t batch_size, bool drop_last,
            const EpochSeed& seed);
  EpochPlan(const std::vector<std::vector<std::int64_t>>& batches, const EpochSeed& seed);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  [[nodiscard]] std::span<const std::int64_t> batch(std::int64_t number) const;
  // In batches 0 to count - 1 together.
  [[nodiscard]] std::int64_t samples_of(std::int64_t count) const;
  [[nodiscard]] const EpochSeed& seed() const { return seed_; }

 private:
  std::vector<std::int64_t> indices_;
  std::vector<std::size_t> ends_;  // Where each batch ends in indices_.
  EpochSeed seed_;
};

}  // namespace lockstep::data
