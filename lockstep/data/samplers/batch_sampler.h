// Cuts what another sampler gives into batches: torch.utils.data.BatchSampler.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/data/samplers/sampler.h"

namespace lockstep::data {

struct BatchSamplerOptions {
  std::int64_t batch_size = 1;
  bool drop_last = false;  // Leaves out a last batch that is not full.
};

class BatchSampler {
 public:
  using BatchRequestType = Sampler::BatchRequestType;

  // Takes a copy, which shares epoch, position and generator with the original. Throws UsageError
  // if the batch size is less than 1.
  template <std::derived_from<Sampler> SamplerType>
  explicit BatchSampler(SamplerType sampler, const BatchSamplerOptions& options = {})
      : BatchSampler(std::make_shared<SamplerType>(std::move(sampler)), options) {}
  BatchSampler(std::shared_ptr<const Sampler> sampler, const BatchSamplerOptions& options);

  // The batches of one epoch.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> batches() const;

  [[nodiscard]] const Sampler& sampler() const { return *sampler_; }
  [[nodiscard]] std::int64_t batch_size() const { return options_.batch_size; }

  // How many batches() there are.
  [[nodiscard]] std::int64_t size() const;

  // For LibTorch's loader, as in Sampler; the batch size in the loader's options is not used.
  void reset();
  std::optional<BatchRequestType> next(std::size_t ignored);

 private:
  std::shared_ptr<const Sampler> sampler_;
  BatchSamplerOptions options_;
  std::vector<std::vector<std::int64_t>> epoch_batches_;
  std::size_t taken_ = 0;
};

}  // namespace lockstep::data
