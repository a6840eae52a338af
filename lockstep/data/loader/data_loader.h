// Batches of a data set, in a sampler's order: torch.utils.data.DataLoader.
//
//   DataLoader loader(dataset, {.batch_size = 64, .sampler = sampler, .num_workers = 4});
//   for (auto& [images, labels] : loader) { ... }
//
// Workers are threads: they share the data set, and nothing is forked or pickled. Which samples
// come, and in which order, does not depend on their number.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/loader/options.h"
#include "lockstep/data/loader/torch_dataset.h"
#include "lockstep/data/samplers/distributed_sampler.h"

namespace lockstep::data {

// One thread at a time uses it. In a fork it may be used anew, from begin() on.
class DataLoader {
 public:
  class Iterator;

  // Throws UsageError where Python's does: see checked() in options.h.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});
  template <std::derived_from<Dataset> DatasetType>
  explicit DataLoader(DatasetType dataset, DataLoaderOptions options = {})
      : DataLoader(std::make_shared<const DatasetType>(std::move(dataset)), std::move(options)) {}
  template <LibTorchDataset DatasetType>
  explicit DataLoader(DatasetType dataset, DataLoaderOptions options = {})
      : DataLoader(std::make_shared<const TorchDataset<DatasetType>>(std::move(dataset)),
                   std::move(options)) {}
  ~DataLoader();
  DataLoader(DataLoader&& other) noexcept;
  DataLoader& operator=(DataLoader&& other) noexcept;

  // Begins an epoch and waits for its first batch; an epoch that was not gone through to its end is
  // given up. A DistributedSampler moves on to the next epoch each time, unless it was told which
  // one comes, here or by its own set_epoch(). Throws what making the first batch threw; nothing
  // was given then, and the next begin() begins the same epoch again.
  [[nodiscard]] Iterator begin();
  [[nodiscard]] static std::default_sentinel_t end() { return {}; }

  // Lets workers make the first batches of the next epoch, for instance while a validation runs:
  // the next begin() finds them, unless the loader is told meanwhile to begin elsewhere. Ends the
  // epoch before, as begin() does. Does nothing without workers, or with a sampler that has no
  // position.
  void prefetch();

  // Batches of an epoch; after resuming, of the rest of it.
  [[nodiscard]] std::int64_t size() const;

  // Which epoch the next begin() begins, from its start. One that was resumed stays where it is.
  void set_epoch(std::int64_t epoch);

  // Where the job is once all ranks have used the batches that this loader has given, counted over
  // all ranks; prefetched ones do not count. Throws UsageError if the sampler is neither a
  // DistributedSampler nor the one of a loader without shuffle and sampler.
  [[nodiscard]] SamplerPosition state_dict() const;
  // The next begin() goes on from there, possibly with another number of ranks. Costs no more than
  // beginning an epoch. Throws UsageError as state_dict(), or if there is no such position.
  void load_state_dict(const SamplerPosition& position);

  [[nodiscard]] const DataLoaderOptions& options() const;  // num_workers is never kAuto.

 private:
  class Epoch;
  struct State;

  std::unique_ptr<State> state_;
};

// Moves forward only. Its end, or the end of its life, stops the workers of this epoch.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Sample;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(std::shared_ptr<Epoch> epoch);
  ~Iterator();
  Iterator(Iterator&& other) noexcept = default;
  Iterator& operator=(Iterator&& other) noexcept;

  [[nodiscard]] Sample& operator*() const { return *batch_; }
  [[nodiscard]] Sample* operator->() const { return batch_.get(); }

  // Blocks until the next batch is there. Throws what making it threw, with the sample's index (of
  // lockstep's errors the type stays, others are nested in an Error); IoError after the timeout;
  // UsageError if a later begin() of the loader ended this epoch. The batch counts as given then,
  // and the next call gives the one behind it, except after the timeout.
  Iterator& operator++();
  void operator++(int) { ++*this; }

  friend bool operator==(const Iterator& iterator, std::default_sentinel_t /*end*/) {
    return iterator.batch_ == nullptr;
  }

 private:
  std::shared_ptr<Epoch> epoch_;
  std::unique_ptr<Sample> batch_;  // Null at the end.
};

}  // namespace lockstep::data
