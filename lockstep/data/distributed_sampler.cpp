#include "lockstep/data/distributed_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

void check(std::int64_t dataset_size, const DistributedSamplerOptions& options) {
  if (dataset_size < 0) {
    throw UsageError("DistributedSampler: the data set's size is " + std::to_string(dataset_size) +
                     ", expected 0 or more");
  }
  if (options.num_replicas < 1) {
    throw UsageError("DistributedSampler: num_replicas is " + std::to_string(options.num_replicas) +
                     ", expected 1 or more; pass the size of the group");
  }
  if (options.rank < 0 || options.rank >= options.num_replicas) {
    throw UsageError("DistributedSampler: rank is " + std::to_string(options.rank) +
                     ", expected 0 to " + std::to_string(options.num_replicas - 1) +
                     ", less than num_replicas");
  }
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size,
                                       const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options) {
  check(dataset_size, options);
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t whole = dataset_size_ / options_.num_replicas;
  const bool goes_round = dataset_size_ % options_.num_replicas == 0;
  return whole + (goes_round || options_.drop_last ? 0 : 1);
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  at::Tensor order;
  if (options_.shuffle) {
    // Wraps around as Python's manual_seed() does for negative numbers.
    const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(epoch_);
    order = at::randperm(dataset_size_, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
  } else {
    order = at::arange(dataset_size_, at::kLong);
  }
  const auto* samples = order.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> ours(static_cast<std::size_t>(size()));
  for (std::int64_t position = options_.rank; auto& index : ours) {
    index = samples[position % dataset_size_];  // Behind the end it starts anew.
    position += options_.num_replicas;
  }
  return ours;
}

}  // namespace lockstep::data
