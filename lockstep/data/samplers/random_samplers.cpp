#include "lockstep/data/samplers/random_samplers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// `drawn` is a one-dimensional tensor of int64.
void append(std::vector<std::int64_t>& indices, const at::Tensor& drawn, std::int64_t count) {
  const auto* values = drawn.const_data_ptr<std::int64_t>();
  indices.insert(indices.end(), values, values + count);
}

// As Python's RandomSampler without a generator does it.
at::Generator newly_seeded_generator() {
  const auto seed = at::empty({}, at::kLong).random_().item<std::int64_t>();
  return seeded_generator(static_cast<std::uint64_t>(seed));
}

void require_weights(const std::vector<double>& weights,
                     const WeightedRandomSamplerOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw UsageError("WeightedRandomSampler: " + what);
  };
  if (options.num_samples < 1) {
    refuse("num_samples is " + std::to_string(options.num_samples) + ", expected 1 or more");
  }
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      refuse("weight " + std::to_string(i) + " is " + std::to_string(weights[i]) +
             ", expected a finite number of 0 or more");
    }
    positive += weights[i] > 0 ? 1 : 0;
  }
  const std::int64_t needed = options.replacement ? 1 : options.num_samples;
  if (positive < needed) {
    refuse("of " + std::to_string(weights.size()) + " weights " + std::to_string(positive) +
           " are positive, expected at least " + std::to_string(needed));
  }
}

}  // namespace

at::Generator seeded_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

RandomSampler::RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options)
    : dataset_size_(dataset_size), options_(std::move(options)) {
  if (dataset_size < 1 || size() < 1) {
    throw UsageError("RandomSampler: " + std::to_string(size()) + " samples from a data set of " +
                     std::to_string(dataset_size) + ", expected at least 1 of each");
  }
}

std::int64_t RandomSampler::size() const { return options_.num_samples.value_or(dataset_size_); }

std::vector<std::int64_t> RandomSampler::indices() const {
  const at::Generator generator =
      options_.generator ? *options_.generator : newly_seeded_generator();
  std::vector<std::int64_t> drawn;
  drawn.reserve(static_cast<std::size_t>(size()));
  // Python draws a last part even where it is empty: the generator's state depends on it.
  if (options_.replacement) {
    constexpr std::int64_t kChunk = 32;
    for (std::int64_t i = 0; i <= size() / kChunk; ++i) {
      const std::int64_t count = i < size() / kChunk ? kChunk : size() % kChunk;
      append(drawn, at::randint(dataset_size_, {count}, generator, at::kLong), count);
    }
  } else {
    for (std::int64_t i = 0; i <= size() / dataset_size_; ++i) {
      const std::int64_t count =
          i < size() / dataset_size_ ? dataset_size_ : size() % dataset_size_;
      append(drawn, at::randperm(dataset_size_, generator, at::kLong), count);
    }
  }
  return drawn;
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> subset,
                                         std::optional<at::Generator> generator)
    : subset_(std::move(subset)), generator_(std::move(generator)) {}

std::int64_t SubsetRandomSampler::size() const { return static_cast<std::int64_t>(subset_.size()); }

std::vector<std::int64_t> SubsetRandomSampler::indices() const {
  std::vector<std::int64_t> order;
  append(order, at::randperm(size(), generator_, at::kLong), size());
  for (auto& index : order) {
    index = subset_[static_cast<std::size_t>(index)];
  }
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), options_(std::move(options)) {
  require_weights(weights_, options_);
}

std::vector<std::int64_t> WeightedRandomSampler::indices() const {
  std::vector<std::int64_t> drawn;
  append(drawn,
         at::multinomial(at::tensor(weights_, at::kDouble), options_.num_samples,
                         options_.replacement, options_.generator),
         options_.num_samples);
  return drawn;
}

}  // namespace lockstep::data
