// Data sets made of others: parts, sums and random splits, as in torch.utils.data.
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

// The samples of another data set that have the given indices, in their order.
class Subset : public Dataset {
 public:
  // Throws UsageError if an index is not in the data set.
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] Sample get(std::int64_t index) const override;
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override;
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool shares_batches() const override { return dataset_->shares_batches(); }
  [[nodiscard]] std::unique_ptr<SharedBatch> start_batch(std::span<const std::int64_t> indices,
                                                         const EpochSeed& epoch) const override;
  [[nodiscard]] bool is_in_memory() const override { return dataset_->is_in_memory(); }

  [[nodiscard]] const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> inner(std::span<const std::int64_t> indices) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

// One data set after another.
class ConcatDataset : public Dataset {
 public:
  // Throws UsageError if there is none.
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);

  [[nodiscard]] std::int64_t size() const override { return ends_.back(); }
  [[nodiscard]] Sample get(std::int64_t index) const override;
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override;
  // Where all are in memory.
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool shares_batches() const override;
  [[nodiscard]] bool is_in_memory() const override;

 private:
  struct Place {
    std::size_t which;   // Data set,
    std::int64_t index;  // and index in it.
  };
  [[nodiscard]] Place place_of(std::int64_t index) const;

  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // Where each ends, in indices of all.
};

// Parts that share no sample and have all of them: Python's for the same generator. Without one it
// draws from LibTorch's default generator. Throws UsageError unless the lengths add up to the size.
std::vector<Subset> random_split(const std::shared_ptr<const Dataset>& dataset,
                                 const std::vector<std::int64_t>& lengths,
                                 const std::optional<at::Generator>& generator = std::nullopt);

// The same with fractions, whose sum is 1; what is left after rounding down goes to the first
// parts, one sample each. Throws UsageError otherwise.
std::vector<Subset> random_split(const std::shared_ptr<const Dataset>& dataset,
                                 const std::vector<double>& fractions,
                                 const std::optional<at::Generator>& generator = std::nullopt);

}  // namespace lockstep::data
