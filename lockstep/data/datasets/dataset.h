// What can be trained on: a number of samples, each found by its index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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

// A batch that threads make together, each some of its samples. The data set must outlive it.
class SharedBatch {
 public:
  virtual ~SharedBatch() = default;

  // Makes the sample that comes at `place` in the batch, once. Threads may make different ones at
  // the same time. Throws as Dataset::get() does.
  virtual void make(std::size_t place) = 0;
  // The batch, once all samples are made.
  virtual Sample finish() = 0;

 protected:
  SharedBatch() = default;
  SharedBatch(const SharedBatch&) = default;
  SharedBatch& operator=(const SharedBatch&) = default;
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

  // True if a sample costs much, as a file that is decoded: the workers of a loader then make each
  // batch together, sample by sample, and do not ask for get_batch().
  [[nodiscard]] virtual bool shares_batches() const { return false; }
  // For such a data set, where it can write each sample where it lies in the batch. Null if it
  // cannot: samples are collated then.
  [[nodiscard]] virtual std::unique_ptr<SharedBatch> start_batch(
      std::span<const std::int64_t> indices, const EpochSeed& epoch) const;

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
