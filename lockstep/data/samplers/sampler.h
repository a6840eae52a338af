// In which order an epoch takes the samples of a data set: the samplers of torch.utils.data.
//
// Each gives the indices that Python's sampler of its name gives for the same seed. Each also fits
// LibTorch's torch::data::make_data_loader, which copies its sampler: copies share the settings
// (epoch, position, generator) and go through the epoch each by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {

// Not thread safe, nor are copies of it that share settings.
class Sampler {
 public:
  using BatchRequestType = std::vector<std::size_t>;  // The name that LibTorch's loader knows.

  virtual ~Sampler() = default;

  // The indices of one epoch. A sampler with a generator draws from it on each call.
  [[nodiscard]] virtual std::vector<std::int64_t> indices() const = 0;

  // How many indices() there are.
  [[nodiscard]] virtual std::int64_t size() const = 0;

  // Begins an epoch; LibTorch's loader calls it in begin().
  void reset();

  // The next indices of the epoch, fewer in its last batch, nothing behind it.
  std::optional<BatchRequestType> next(std::size_t batch_size);

 protected:
  Sampler() = default;
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;
  Sampler(Sampler&&) = default;
  Sampler& operator=(Sampler&&) = default;

 private:
  std::vector<std::int64_t> epoch_indices_;
  std::size_t taken_ = 0;
};

// 0, 1, 2, ...
class SequentialSampler : public Sampler {
 public:
  // Throws UsageError if the size is negative.
  explicit SequentialSampler(std::int64_t dataset_size);

  [[nodiscard]] std::vector<std::int64_t> indices() const override;
  [[nodiscard]] std::int64_t size() const override { return dataset_size_; }

 private:
  std::int64_t dataset_size_;
};

}  // namespace lockstep::data
