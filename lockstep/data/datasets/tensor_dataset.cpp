#include "lockstep/data/datasets/tensor_dataset.h"

#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/gather_rows.h"

namespace lockstep::data {

TensorDataset::TensorDataset(at::Tensor data, at::Tensor target)
    : data_(std::move(data)), target_(std::move(target)) {
  const auto is_list = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0;
  };
  if (!is_list(data_) || (target_.defined() && !is_list(target_))) {
    throw UsageError("TensorDataset: a tensor has no dimension, expected samples along the first");
  }
  if (target_.defined() && target_.size(0) != data_.size(0)) {
    throw UsageError("TensorDataset: " + std::to_string(data_.size(0)) + " samples and " +
                     std::to_string(target_.size(0)) + " targets, expected as many");
  }
}

Sample TensorDataset::get(std::int64_t index) const {
  require_index("TensorDataset", index, size());
  return {data_.select(0, index), target_.defined() ? target_.select(0, index) : at::Tensor()};
}

std::optional<Sample> TensorDataset::get_batch(std::span<const std::int64_t> indices,
                                               const EpochSeed& /*epoch*/) const {
  for (const std::int64_t index : indices) {
    require_index("TensorDataset", index, size());
  }
  return Sample{gather_rows(data_, indices),
                target_.defined() ? gather_rows(target_, indices) : at::Tensor()};
}

}  // namespace lockstep::data
