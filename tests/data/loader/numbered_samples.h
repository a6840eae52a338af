// Data whose samples are numbers, and what a loader gives of them.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/loader/data_loader.h"

namespace lockstep::data {

using Batches = std::vector<std::vector<std::int64_t>>;

// Sample i is i, its target 10 times as much.
inline TensorDataset counted_samples(std::int64_t size) {
  return TensorDataset(at::arange(size, at::kLong), at::arange(size, at::kLong) * 10);
}

inline std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

inline Batches epoch_of(DataLoader& loader) {
  Batches batches;
  for (auto& [data, target] : loader) {
    batches.push_back(values(data));
  }
  return batches;
}

// Calls `look` with the index before each sample is given; sample i is i.
class Watched : public Dataset {
 public:
  explicit Watched(std::int64_t size, std::function<void(std::int64_t)> look)
      : size_(size), look_(std::move(look)) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] Sample get(std::int64_t index) const override {
    look_(index);
    return {at::scalar_tensor(index, at::kLong), {}};
  }

 private:
  std::int64_t size_;
  std::function<void(std::int64_t)> look_;
};

}  // namespace lockstep::data
