#include "lockstep/data/samplers/distributed_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

void require_rank(const std::string& who, std::int64_t dataset_size, std::int64_t num_replicas,
                  std::int64_t rank) {
  if (dataset_size < 0) {
    throw UsageError(who + ": the data set's size is " + std::to_string(dataset_size) +
                     ", expected 0 or more");
  }
  if (num_replicas < 1) {
    throw UsageError(who + ": num_replicas is " + std::to_string(num_replicas) +
                     ", expected 1 or more; pass the size of the group");
  }
  if (rank < 0 || rank >= num_replicas) {
    throw UsageError(who + ": rank is " + std::to_string(rank) + ", expected 0 to " +
                     std::to_string(num_replicas - 1) + ", less than num_replicas");
  }
}

at::Tensor epoch_order(const SamplerPosition& position, std::int64_t dataset_size, bool shuffle) {
  if (!shuffle) {
    return at::arange(dataset_size, at::kLong);
  }
  // Wraps around as Python's manual_seed() does for negative numbers.
  const std::uint64_t seed = position.seed + static_cast<std::uint64_t>(position.epoch);
  return at::randperm(dataset_size, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, std::int64_t num_replicas,
                                       std::int64_t rank, const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size),
      num_replicas_(num_replicas),
      rank_(rank),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last),
      start_(std::make_shared<SamplerPosition>(SamplerPosition{.seed = options.seed})) {
  require_rank("DistributedSampler", dataset_size, num_replicas, rank);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch != start_->epoch) {
    start_->epoch = epoch;
    start_->consumed = 0;
  }
}

void DistributedSampler::resume(const SamplerPosition& position) {
  if (position.consumed < 0 || position.consumed > dataset_size_) {
    throw UsageError("DistributedSampler::resume: the position has " +
                     std::to_string(position.consumed) + " samples consumed, expected 0 to " +
                     std::to_string(dataset_size_) +
                     ", the data set's size; is it a position of this data set?");
  }
  *start_ = position;
}

SamplerPosition DistributedSampler::position_after(std::int64_t taken) const {
  if (taken < 0 || taken > size()) {
    throw UsageError("DistributedSampler::position_after: " + std::to_string(taken) +
                     " samples taken by each rank, expected 0 to " + std::to_string(size()) +
                     ", its share of the rest of the epoch");
  }
  SamplerPosition position = *start_;
  position.consumed = std::min(dataset_size_, position.consumed + taken * num_replicas_);
  return position;
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t rest = dataset_size_ - start_->consumed;
  return (drop_last_ ? rest : rest + num_replicas_ - 1) / num_replicas_;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  const at::Tensor order = epoch_order(*start_, dataset_size_, shuffle_);
  const auto* samples = order.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> ours(static_cast<std::size_t>(size()));
  for (std::int64_t place = start_->consumed + rank_; auto& index : ours) {
    index = samples[place % dataset_size_];  // Behind the end it starts anew.
    place += num_replicas_;
  }
  return ours;
}

EvaluationSampler::EvaluationSampler(std::int64_t dataset_size, std::int64_t num_replicas,
                                     std::int64_t rank)
    : dataset_size_(dataset_size), num_replicas_(num_replicas), rank_(rank) {
  require_rank("EvaluationSampler", dataset_size, num_replicas, rank);
}

std::int64_t EvaluationSampler::size() const {
  return (dataset_size_ - rank_ + num_replicas_ - 1) / num_replicas_;
}

std::vector<std::int64_t> EvaluationSampler::indices() const {
  std::vector<std::int64_t> ours(static_cast<std::size_t>(size()));
  for (std::int64_t index = rank_; auto& our : ours) {
    our = index;
    index += num_replicas_;
  }
  return ours;
}

}  // namespace lockstep::data
