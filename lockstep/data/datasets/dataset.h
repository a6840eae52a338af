// What can be trained on: a number of samples, each found by its index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::data {

struct Sample {
  at::Tensor data;
  at::Tensor target;  // Undefined in a data set without targets.
};

// Immutable: threads may get samples at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;

  // Throws UsageError naming the index unless it is 0 to size() - 1.
  [[nodiscard]] virtual Sample get(std::int64_t index) const = 0;

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
