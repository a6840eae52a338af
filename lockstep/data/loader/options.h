// How a DataLoader works: the arguments of torch.utils.data.DataLoader, in its order.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/loader/mixup.h"
#include "lockstep/data/samplers/batch_sampler.h"
#include "lockstep/data/samplers/sampler.h"

namespace lockstep::data {

// As num_workers: none for a data set in memory, else one for each core of this rank.
inline constexpr int kAuto = std::numeric_limits<int>::min();

// Any sampler, so that `.sampler = DistributedSampler(...)` can be written. Copies share epoch,
// position and generator.
class AnySampler {
 public:
  AnySampler() = default;
  template <std::derived_from<Sampler> SamplerType>
  // NOLINTNEXTLINE(google-explicit-constructor)
  AnySampler(SamplerType sampler) : sampler_(std::make_shared<SamplerType>(std::move(sampler))) {}
  template <std::derived_from<Sampler> SamplerType>
  // NOLINTNEXTLINE(google-explicit-constructor)
  AnySampler(std::shared_ptr<SamplerType> sampler) : sampler_(std::move(sampler)) {}

  explicit operator bool() const { return sampler_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<Sampler>& get() const { return sampler_; }

 private:
  std::shared_ptr<Sampler> sampler_;
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  AnySampler sampler;
  std::optional<BatchSampler> batch_sampler;
  int num_workers = 0;  // Threads; 0: batches are made when they are asked for. Or kAuto.
  // Called by workers, with the samples of a batch in order.
  std::function<Sample(std::vector<Sample>)> collate_fn;
  bool pin_memory = false;  // Where there is a GPU.
  bool drop_last = false;
  // How long the next batch may take, with workers; 0: for ever, Python's default. Ours is 30 min.
  std::optional<std::chrono::milliseconds> timeout;
  // Called once in each worker, with its number, before the first batch is given. If it throws,
  // begin() throws that, and the next begin() tries with new workers.
  std::function<void(int worker)> worker_init_fn;
  // For shuffle; without one, LibTorch's default one, which torch::manual_seed() sets.
  std::optional<at::Generator> generator;
  std::optional<int> prefetch_factor;  // Batches made ahead by each worker; 2 unless given.
  // Not in Python: where batches are copied to, ahead of their use, on a stream of their own.
  std::optional<c10::Device> device;
  // Not in Python: what is done to each batch, by workers. Its random numbers follow from seed,
  // epoch and the batch's first index.
  BatchTransform batch_transform;
};

// With what was left open filled in. Throws UsageError where Python's DataLoader refuses, and for
// a batch size or prefetch factor with which Python's waits for ever or fails at the first batch.
DataLoaderOptions checked(DataLoaderOptions options, const Dataset& dataset);

// What kAuto is for a data set that is not in memory.
int automatic_workers();

}  // namespace lockstep::data
