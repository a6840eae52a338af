// Samplers that draw from a generator: torch.utils.data's, draw for draw.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/samplers/sampler.h"

namespace lockstep::data {

// Python's torch.Generator().manual_seed(seed), on the CPU.
at::Generator seeded_generator(std::uint64_t seed);

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<std::int64_t> num_samples;  // In an epoch; the data set's size unless given.
  // Shared with copies of the sampler; each epoch goes on drawing from it. Without one each epoch
  // takes a seed from LibTorch's default generator, which torch::manual_seed() sets.
  std::optional<at::Generator> generator;
};

// A permutation of the data set, or single draws with replacement.
class RandomSampler : public Sampler {
 public:
  // Throws UsageError unless data set and num_samples have at least one sample.
  explicit RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options = {});

  [[nodiscard]] std::vector<std::int64_t> indices() const override;
  [[nodiscard]] std::int64_t size() const override;

 private:
  std::int64_t dataset_size_;
  RandomSamplerOptions options_;
};

// The given indices in random order.
class SubsetRandomSampler : public Sampler {
 public:
  // Without a generator it draws from LibTorch's default one.
  explicit SubsetRandomSampler(std::vector<std::int64_t> subset,
                               std::optional<at::Generator> generator = std::nullopt);

  [[nodiscard]] std::vector<std::int64_t> indices() const override;
  [[nodiscard]] std::int64_t size() const override;

 private:
  std::vector<std::int64_t> subset_;
  std::optional<at::Generator> generator_;
};

struct WeightedRandomSamplerOptions {
  std::int64_t num_samples = 0;  // In an epoch; must be given.
  bool replacement = true;
  std::optional<at::Generator> generator;  // Without one it draws from LibTorch's default one.
};

// Sample i comes with a probability proportional to weights[i].
class WeightedRandomSampler : public Sampler {
 public:
  // Throws UsageError if a weight is negative, infinite or not a number, if all are 0, or if there
  // are fewer positive ones than samples to draw without replacement.
  WeightedRandomSampler(std::vector<double> weights, WeightedRandomSamplerOptions options);

  [[nodiscard]] std::vector<std::int64_t> indices() const override;
  [[nodiscard]] std::int64_t size() const override { return options_.num_samples; }

 private:
  std::vector<double> weights_;
  WeightedRandomSamplerOptions options_;
};

}  // namespace lockstep::data
