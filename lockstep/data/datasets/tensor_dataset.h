// Samples are the rows of tensors: torch.utils.data.TensorDataset.
#pragma once

#include <cstdint>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

class TensorDataset : public Dataset {
 public:
  // Shares the tensors' memory. Throws UsageError unless both have a first dimension, of one
  // length.
  explicit TensorDataset(at::Tensor data, at::Tensor target = {});

  [[nodiscard]] std::int64_t size() const override { return data_.size(0); }
  [[nodiscard]] Sample get(std::int64_t index) const override;  // Views, not copies.
  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& epoch) const override;
  [[nodiscard]] bool is_in_memory() const override { return true; }

  [[nodiscard]] const at::Tensor& data() const { return data_; }
  [[nodiscard]] const at::Tensor& target() const { return target_; }

 private:
  at::Tensor data_;
  at::Tensor target_;
};

}  // namespace lockstep::data
