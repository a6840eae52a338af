#include "lockstep/data/samplers/batch_sampler.h"

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler,
                           const BatchSamplerOptions& options)
    : sampler_(std::move(sampler)), options_(options) {
  if (options.batch_size < 1) {
    throw UsageError("BatchSampler: batch_size is " + std::to_string(options.batch_size) +
                     ", expected 1 or more");
  }
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches() const {
  const std::vector<std::int64_t> indices = sampler_->indices();
  const auto batch_size = static_cast<std::size_t>(options_.batch_size);
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t begin = 0; begin < indices.size(); begin += batch_size) {
    const std::size_t count = std::min(batch_size, indices.size() - begin);
    if (count == batch_size || !options_.drop_last) {
      all.emplace_back(indices.data() + begin, indices.data() + begin + count);
    }
  }
  return all;
}

std::int64_t BatchSampler::size() const {
  const std::int64_t whole = sampler_->size() / options_.batch_size;
  const bool has_rest = sampler_->size() % options_.batch_size != 0;
  return whole + (has_rest && !options_.drop_last ? 1 : 0);
}

void BatchSampler::reset() {
  epoch_batches_ = batches();
  taken_ = 0;
}

std::optional<BatchSampler::BatchRequestType> BatchSampler::next(std::size_t /*ignored*/) {
  if (taken_ == epoch_batches_.size()) {
    return std::nullopt;
  }
  const auto& batch = epoch_batches_[taken_++];
  return BatchRequestType(batch.begin(), batch.end());
}

}  // namespace lockstep::data
