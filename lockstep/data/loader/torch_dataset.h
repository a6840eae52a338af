// Lets a data set of LibTorch (torch::data::datasets, or one's own derived from Dataset) go into
// our loader, with its map() transforms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/datasets/error_place.h"
#include "lockstep/data/loader/collate.h"

namespace lockstep::data {

// torch::data::datasets::BatchDataset, told by its members: its header takes long to compile.
template <class DatasetType>
concept LibTorchDataset =
    requires(DatasetType dataset, typename DatasetType::BatchRequestType some) {
      typename DatasetType::BatchType;
      dataset.get_batch(some);
      { dataset.size() } -> std::convertible_to<std::optional<std::size_t>>;
    };

// get() of LibTorch's data sets may change them, so each thread works on a copy of its own, as in
// LibTorch's loader.
template <LibTorchDataset DatasetType>
class TorchDataset : public Dataset {
 public:
  // Throws UsageError if the data set does not know its size.
  explicit TorchDataset(DatasetType dataset) : original_(std::move(dataset)) {
    static_assert(!DatasetType::is_stateful, "a data set that is stateful has no indices");
    if (!original_.size()) {
      throw UsageError("DataLoader: the data set has no size, expected one with indices");
    }
  }

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(*original_.size());
  }

  [[nodiscard]] Sample get(std::int64_t index) const override {
    require_index("TorchDataset", index, size());
    Sample one = made_of({&index, 1});
    return {one.data.select(0, 0), one.target.defined() ? one.target.select(0, 0) : at::Tensor()};
  }

  [[nodiscard]] std::optional<Sample> get_batch(std::span<const std::int64_t> indices,
                                                const EpochSeed& /*epoch*/) const override {
    for (const std::int64_t index : indices) {
      require_index("TorchDataset", index, size());
    }
    return batch_of(indices);
  }

 private:
  using BatchType = typename DatasetType::BatchType;

  template <class ExampleType>
  static Sample sample_of(ExampleType&& example) {
    static_assert(
        requires { at::Tensor(example.data); },
        "a sample of this data set has no tensor `data`; derive from lockstep::data::Dataset");
    if constexpr (requires { at::Tensor(example.target); }) {
      return {std::move(example.data), std::move(example.target)};
    } else {
      return {std::move(example.data), {}};  // torch::data::NoTarget.
    }
  }

  // Which of them was at fault LibTorch does not say.
  static std::string place_of(std::span<const std::int64_t> indices) {
    std::string text = indices.size() == 1 ? "sample " : "one of samples ";
    for (std::size_t i = 0; i < indices.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(indices[i]);
    }
    return text + ": ";
  }

  [[nodiscard]] Sample batch_of(std::span<const std::int64_t> indices) const {
    return with_place([&] { return place_of(indices); }, [&] { return made_of(indices); });
  }

  [[nodiscard]] Sample made_of(std::span<const std::int64_t> indices) const {
    const std::vector<std::size_t> wanted(indices.begin(), indices.end());
    std::unique_ptr<DatasetType> copy = take_copy();
    BatchType batch = copy->get_batch(wanted);
    give_copy(std::move(copy));  // One that has thrown is dropped.
    if constexpr (requires { batch.begin(); }) {
      std::vector<Sample> samples;
      samples.reserve(indices.size());
      for (auto& example : batch) {
        samples.push_back(sample_of(example));
      }
      return default_collate(samples);
    } else {
      return sample_of(batch);  // A transform such as torch::data::transforms::Stack made it.
    }
  }

  [[nodiscard]] std::unique_ptr<DatasetType> take_copy() const {
    const std::lock_guard lock(mutex_);
    if (copies_.empty()) {
      return std::make_unique<DatasetType>(original_);
    }
    auto copy = std::move(copies_.back());
    copies_.pop_back();
    return copy;
  }

  void give_copy(std::unique_ptr<DatasetType> copy) const {
    const std::lock_guard lock(mutex_);
    copies_.push_back(std::move(copy));
  }

  DatasetType original_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<DatasetType>> copies_;  // Copies that nobody uses now.
};

}  // namespace lockstep::data
