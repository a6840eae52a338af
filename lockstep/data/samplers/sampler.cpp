#include "lockstep/data/samplers/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

void Sampler::reset() {
  epoch_indices_ = indices();
  taken_ = 0;
}

std::optional<Sampler::BatchRequestType> Sampler::next(std::size_t batch_size) {
  const std::size_t count = std::min(batch_size, epoch_indices_.size() - taken_);
  if (count == 0) {
    return std::nullopt;
  }
  const auto* begin = epoch_indices_.data() + taken_;
  taken_ += count;
  return BatchRequestType(begin, begin + count);
}

SequentialSampler::SequentialSampler(std::int64_t dataset_size) : dataset_size_(dataset_size) {
  if (dataset_size < 0) {
    throw UsageError("SequentialSampler: the data set's size is " + std::to_string(dataset_size) +
                     ", expected 0 or more");
  }
}

std::vector<std::int64_t> SequentialSampler::indices() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(dataset_size_));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace lockstep::data
