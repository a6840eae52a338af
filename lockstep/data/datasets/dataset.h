// What can be trained on: a number of samples, each found by its index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::data {

// In a batch each tensor has an extra leading dimension.
struct Sample {
  at::Tensor data;
  at::Tensor target;  // Undefined in a data set without targets.
};

// What random transforms draw from, together with a sample's index: its numbers do not depend on
// who loads it, or when.
struct EpochSeed {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

// Immutable: threads may get samples at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;

  // Throws UsageError naming the index unless it is 0 to size() - 1.
  [[nodiscard]] virtual Sample get(std::int64_t index) const = 0;

  // The same for a data set with random transforms. This is what a loader calls.
  [[nodiscard]] virtual Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const;

  // Many at once, as default_collate() would make a batch of them, in memory of its own. Nothing if
  // the data set has no faster way than one after the other. Throws as get() does.
  [[nodiscard]] virtual std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                        const EpochSeed& epoch) const;

  // True if getting samples is no more than a copy: worker threads would gain nothing.
  [[nodiscard]] virtual bool is_in_memory() const { return false; }

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(Dataset&&) = default;
};

// Throws UsageError, naming `who`, unless `index` is 0 to size - 1.
void require_index(const char* who, std::int64_t index, std::int64_t size);

}  // namespace lockstep::data
