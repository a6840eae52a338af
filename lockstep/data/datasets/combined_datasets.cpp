#include "lockstep/data/datasets/combined_datasets.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/gather_rows.h"

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

// Samples of the same index in two data sets draw other numbers.
EpochSeed epoch_of_part(const EpochSeed& epoch, std::size_t which) {
  return {.seed = epoch.seed + which, .epoch = epoch.epoch};
}

bool can_be_joined(const std::vector<Sample>& parts, at::Tensor Sample::* member) {
  const at::Tensor& first = parts.front().*member;
  return std::ranges::all_of(parts, [&](const Sample& part) {
    const at::Tensor& tensor = part.*member;
    return tensor.defined() == first.defined() &&
           (!first.defined() || tensor.sizes().slice(1) == first.sizes().slice(1));
  });
}

at::Tensor joined(const std::vector<Sample>& parts, at::Tensor Sample::* member,
                  const std::vector<std::int64_t>& order) {
  if (!(parts.front().*member).defined()) {
    return {};
  }
  std::vector<at::Tensor> tensors;
  for (const Sample& part : parts) {
    tensors.push_back(part.*member);
  }
  return gather_rows(at::cat(tensors), order);
}

// Their rows in the given order. Nothing if they have no common shape: what is wrong then, the one
// who collates single samples says.
std::optional<Sample> joined(const std::vector<Sample>& parts,
                             const std::vector<std::int64_t>& order) {
  if (parts.empty() || !can_be_joined(parts, &Sample::data) ||
      !can_be_joined(parts, &Sample::target)) {
    return std::nullopt;
  }
  return Sample{joined(parts, &Sample::data, order), joined(parts, &Sample::target, order)};
}

std::shared_ptr<const Dataset> not_null(const char* what, std::shared_ptr<const Dataset> dataset) {
  if (!dataset) {
    throw UsageError(std::string(what) + ": the data set is null, expected one");
  }
  return dataset;
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(not_null("Subset", std::move(dataset))), indices_(std::move(indices)) {
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

std::vector<std::int64_t> Subset::inner(std::span<const std::int64_t> indices) const {
  std::vector<std::int64_t> wanted;
  wanted.reserve(indices.size());
  for (const std::int64_t index : indices) {
    require_index("Subset", index, size());
    wanted.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return wanted;
}

std::optional<Sample> Subset::get_batch(std::span<const std::int64_t> indices,
                                        const EpochSeed& epoch) const {
  return dataset_->get_batch(inner(indices), epoch);
}

std::unique_ptr<SharedBatch> Subset::start_batch(std::span<const std::int64_t> indices,
                                                 const EpochSeed& epoch) const {
  return dataset_->start_batch(inner(indices), epoch);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  if (datasets_.empty()) {
    throw UsageError("ConcatDataset: there are no data sets, expected at least one");
  }
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    ends_.push_back(end += not_null("ConcatDataset", dataset)->size());
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
  return datasets_[place.which]->get_in_epoch(place.index, epoch_of_part(epoch, place.which));
}

std::optional<Sample> ConcatDataset::get_batch(std::span<const std::int64_t> indices,
                                               const EpochSeed& epoch) const {
  if (!is_in_memory()) {
    return std::nullopt;
  }
  std::vector<std::size_t> which_of;                           // For each sample.
  std::vector<std::vector<std::int64_t>> inner(ends_.size());  // For each data set.
  for (const std::int64_t index : indices) {
    const Place place = place_of(index);
    which_of.push_back(place.which);
    inner[place.which].push_back(place.index);
  }
  std::vector<Sample> parts;
  std::vector<std::int64_t> next_row(ends_.size());  // In each data set, over all parts.
  std::int64_t rows = 0;
  for (std::size_t which = 0; which < ends_.size(); ++which) {
    next_row[which] = rows;
    rows += static_cast<std::int64_t>(inner[which].size());
    if (!inner[which].empty()) {
      auto part = datasets_[which]->get_batch(inner[which], epoch_of_part(epoch, which));
      if (!part) {
        return std::nullopt;
      }
      parts.push_back(std::move(*part));
    }
  }
  if (parts.size() == 1) {
    return std::move(parts.front());
  }
  std::vector<std::int64_t> order;
  for (const std::size_t which : which_of) {
    order.push_back(next_row[which]++);
  }
  return joined(parts, order);
}

bool ConcatDataset::shares_batches() const {
  return std::ranges::any_of(datasets_,
                             [](const auto& dataset) { return dataset->shares_batches(); });
}

bool ConcatDataset::is_in_memory() const {
  return std::ranges::all_of(datasets_,
                             [](const auto& dataset) { return dataset->is_in_memory(); });
}

std::vector<Subset> random_split(const std::shared_ptr<const Dataset>& dataset,
                                 const std::vector<std::int64_t>& lengths,
                                 const std::optional<at::Generator>& generator) {
  const std::int64_t size = not_null("random_split", dataset)->size();
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
  return random_split(dataset, lengths_of(fractions, not_null("random_split", dataset)->size()),
                      generator);
}

}  // namespace lockstep::data
