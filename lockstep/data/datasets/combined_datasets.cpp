#include "lockstep/data/datasets/combined_datasets.h"

#include <ATen/ops/randperm.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// Python's math.isclose(sum, 1) and sum <= 1.
bool sums_to_one(double sum) { return sum <= 1 && 1 - sum <= 1e-9; }

std::vector<std::int64_t> lengths_of(const std::vector<double>& fractions, std::int64_t size) {
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    if (!(fractions[i] >= 0 && fractions[i] <= 1)) {
      throw UsageError("random_split: fraction " + std::to_string(i) + " is " +
                       std::to_string(fractions[i]) + ", expected 0 to 1");
    }
  }
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  if (!sums_to_one(sum)) {
    throw UsageError("random_split: the fractions sum to " + std::to_string(sum) + ", expected 1");
  }
  std::vector<std::int64_t> lengths;
  std::int64_t rest = size;
  for (const double fraction : fractions) {
    lengths.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)));
    rest -= lengths.back();
  }
  for (std::int64_t i = 0; i < rest; ++i) {
    ++lengths[static_cast<std::size_t>(i) % lengths.size()];
  }
  return lengths;
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  for (const std::int64_t index : indices_) {
    require_index("Subset", index, dataset_->size());
  }
}

std::int64_t Subset::size() const { return static_cast<std::int64_t>(indices_.size()); }

Sample Subset::get(std::int64_t index) const {
  require_index("Subset", index, size());
  return dataset_->get(indices_[static_cast<std::size_t>(index)]);
}

Sample Subset::get_in_epoch(std::int64_t index, const EpochSeed& epoch) const {
  require_index("Subset", index, size());
  return dataset_->get_in_epoch(indices_[static_cast<std::size_t>(index)], epoch);
}

std::optional<Sample> Subset::get_batch(std::span<const std::int64_t> indices,
                                        const EpochSeed& epoch) const {
  std::vector<std::int64_t> inner;
  inner.reserve(indices.size());
  for (const std::int64_t index : indices) {
    require_index("Subset", index, size());
    inner.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return dataset_->get_batch(inner, epoch);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  if (datasets_.empty()) {
    throw UsageError("ConcatDataset: there are no data sets, expected at least one");
  }
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    ends_.push_back(end += dataset->size());
  }
}

ConcatDataset::Place ConcatDataset::place_of(std::int64_t index) const {
  require_index("ConcatDataset", index, size());
  const auto which =
      static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
  return {which, index - (ends_[which] - datasets_[which]->size())};
}

Sample ConcatDataset::get(std::int64_t index) const {
  const Place place = place_of(index);
  return datasets_[place.which]->get(place.index);
}

Sample ConcatDataset::get_in_epoch(std::int64_t index, const EpochSeed& epoch) const {
  const Place place = place_of(index);
  // Samples of the same index in two data sets draw other numbers.
  return datasets_[place.which]->get_in_epoch(
      place.index, {.seed = epoch.seed + place.which, .epoch = epoch.epoch});
}

bool ConcatDataset::is_in_memory() const {
  return std::ranges::all_of(datasets_,
                             [](const auto& dataset) { return dataset->is_in_memory(); });
}

std::vector<Subset> random_split(const std::shared_ptr<const Dataset>& dataset,
                                 const std::vector<std::int64_t>& lengths,
                                 const std::optional<at::Generator>& generator) {
  const std::int64_t size = dataset->size();
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > size - sum) {
      sum = -1;
      break;
    }
    sum += length;
  }
  if (sum != size) {
    throw UsageError("random_split: the lengths do not add up to the data set's size, " +
                     std::to_string(size) + ", or one is negative");
  }
  const at::Tensor order = at::randperm(size, generator, at::kLong);
  const auto* next = order.const_data_ptr<std::int64_t>();
  std::vector<Subset> parts;
  for (const std::int64_t length : lengths) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(next, next + length));
    next += length;
  }
  return parts;
}

std::vector<Subset> random_split(const std::shared_ptr<const Dataset>& dataset,
                                 const std::vector<double>& fractions,
                                 const std::optional<at::Generator>& generator) {
  return random_split(dataset, lengths_of(fractions, dataset->size()), generator);
}

}  // namespace lockstep::data
