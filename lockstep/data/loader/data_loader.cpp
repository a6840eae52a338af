#include "lockstep/data/loader/data_loader.h"

#include <ATen/ops/empty.h>

#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/epoch.h"
#include "lockstep/data/loader/loader_workers.h"
#include "lockstep/data/samplers/random_samplers.h"

namespace lockstep::data {
namespace {

// Python's loader draws it at the begin of each epoch, before its sampler draws.
std::uint64_t draw_base_seed(const std::optional<at::Generator>& generator) {
  return static_cast<std::uint64_t>(
      at::empty({}, at::kLong).random_(generator).item<std::int64_t>());
}

std::shared_ptr<Sampler> sampler_of(const DataLoaderOptions& options, std::int64_t size) {
  if (options.sampler) {
    return options.sampler.get();
  }
  if (options.shuffle) {
    return std::make_shared<RandomSampler>(size,
                                           RandomSamplerOptions{.generator = options.generator});
  }
  // Gives 0, 1, 2, ... as SequentialSampler does, and knows its position.
  return std::make_shared<DistributedSampler>(size, 1, 0,
                                              DistributedSamplerOptions{.shuffle = false});
}

std::shared_ptr<const Dataset> require_dataset(std::shared_ptr<const Dataset> dataset) {
  if (!dataset) {
    throw UsageError("DataLoader: the data set is a null pointer, expected a data set");
  }
  return dataset;
}

// Shares epoch and position with the sampler.
std::optional<DistributedSampler> as_distributed(const Sampler& sampler) {
  const auto* distributed = dynamic_cast<const DistributedSampler*>(&sampler);
  return distributed == nullptr ? std::nullopt : std::optional(*distributed);
}

}  // namespace

struct DataLoader::State {
  State(std::shared_ptr<const Dataset> set, DataLoaderOptions given)
      : options(checked(std::move(given), *set)),
        sampler(options.batch_sampler ? nullptr : sampler_of(options, set->size())),
        distributed(as_distributed(sampler ? *sampler : options.batch_sampler->sampler())),
        maker(std::make_shared<const BatchMaker>(std::move(set), options.collate_fn,
                                                 options.batch_transform)),
        parts(maker->shares_batches() ? parts_of_batch(options) : 1) {}

  // Where the next epoch begins, if the sampler knows positions.
  [[nodiscard]] SamplerPosition next_start() const {
    SamplerPosition start = distributed->position_after(0);
    if (begun && start == *begun) {  // Nobody has moved it since.
      start.epoch += again ? 0 : 1;
      start.consumed = 0;
    }
    return start;
  }

  [[nodiscard]] const DistributedSampler& require_position(const char* what) const {
    if (!distributed) {
      throw UsageError(std::string("DataLoader::") + what +
                       ": the sampler has no position to go on from, expected a "
                       "DistributedSampler; with one process, num_replicas is 1 and rank 0");
    }
    return *distributed;
  }

  EpochSeed begin_sampler(std::uint64_t base_seed) {
    if (distributed) {
      begun = next_start();
      distributed->resume(*begun);
      again = false;
    }
    // What a sampler with a seed gives must not depend on what was drawn before.
    const bool has_seed = distributed && (options.sampler || options.batch_sampler);
    const std::int64_t number = begun ? begun->epoch : other_epoch++;
    return {.seed = has_seed ? begun->seed : base_seed, .epoch = number};
  }

  // Ends the one before. Workers make its first batches at once.
  std::shared_ptr<Epoch> start_epoch() {
    if (epoch) {
      epoch->close();
    }
    const EpochSeed seed = begin_sampler(draw_base_seed(options.generator));
    try {
      auto plan = options.batch_sampler
                      ? std::make_shared<const EpochPlan>(options.batch_sampler->batches(), seed)
                      : std::make_shared<const EpochPlan>(sampler->indices(), options.batch_size,
                                                          options.drop_last, seed);
      if (!transfer) {
        transfer.emplace(options.pin_memory, options.device);
      }
      const EpochWorkers of_epoch{.pool = workers.for_epoch(options, plan->size(), parts),
                                  .parts = parts};
      return std::make_shared<Epoch>(std::move(plan), maker, *transfer, of_epoch);
    } catch (...) {
      repeat_begun();
      throw;
    }
  }

  // The epoch that was begun gave nothing: the next one is the same, from the same place.
  void repeat_begun() {
    if (distributed) {
      begun.reset();
    } else {
      --other_epoch;
    }
  }

  // Whether it is what begin() is to begin: nobody has moved the sampler since, and its workers are
  // of this process.
  [[nodiscard]] bool is_prepared() const {
    return prepared && workers.in_owner() && distributed->position_after(0) == *begun;
  }

  // The next epoch begins where the sampler stands.
  void drop_prepared() {
    if (prepared) {
      prepared->close();
      prepared.reset();
      begun.reset();
    }
  }

  DataLoaderOptions options;
  std::shared_ptr<Sampler> sampler;  // Null if there is a batch sampler.
  std::optional<DistributedSampler> distributed;
  std::shared_ptr<const BatchMaker> maker;
  std::int64_t parts;  // In a batch, made by several workers.
  // For all epochs: LibTorch keeps memory that was freed for the stream that had it.
  std::optional<Transfer> transfer;
  LoaderWorkers workers;
  std::shared_ptr<Epoch> epoch;          // The last one begun.
  std::shared_ptr<Epoch> prepared;       // By prefetch(), for the next begin().
  std::optional<SamplerPosition> begun;  // Where the prepared one begins, else the last one.
  bool again = false;                    // set_epoch() asked for the same epoch once more.
  std::int64_t other_epoch = 0;          // The next one, of a sampler without epochs.
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : state_(std::make_unique<State>(require_dataset(std::move(dataset)), std::move(options))) {}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&& other) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&& other) noexcept = default;

DataLoader::Iterator DataLoader::begin() {
  State& state = *state_;
  if (!state.is_prepared()) {
    state.drop_prepared();
    state.prepared = state.start_epoch();
  }
  state.epoch = std::exchange(state.prepared, nullptr);
  try {
    return Iterator(state.epoch);
  } catch (...) {
    state.repeat_begun();
    throw;
  }
}

void DataLoader::prefetch() {
  State& state = *state_;
  if (state.options.num_workers > 0 && state.distributed && !state.is_prepared()) {
    state.drop_prepared();
    state.prepared = state.start_epoch();
  }
}

std::int64_t DataLoader::size() const {
  const auto& options = state_->options;
  if (options.batch_sampler) {
    return options.batch_sampler->size();
  }
  const std::int64_t samples = state_->sampler->size();
  const bool has_tail = !options.drop_last && samples % options.batch_size != 0;
  return samples / options.batch_size + (has_tail ? 1 : 0);
}

void DataLoader::set_epoch(std::int64_t epoch) {
  State& state = *state_;
  if (!state.distributed) {
    state.other_epoch = epoch;
    return;
  }
  if (!state.is_prepared() || state.begun->epoch != epoch) {
    state.drop_prepared();
    state.again = state.begun && state.begun->epoch == epoch;
  }
  state.distributed->set_epoch(epoch);
}

SamplerPosition DataLoader::state_dict() const {
  const State& state = *state_;
  const DistributedSampler& sampler = state.require_position("state_dict");
  if (!state.begun || state.again || sampler.position_after(0) != *state.begun) {
    return state.next_start();
  }
  if (state.prepared) {
    return *state.begun;
  }
  if (!state.epoch->is_over()) {
    return sampler.position_after(state.epoch->samples_given());
  }
  SamplerPosition end = *state.begun;
  end.consumed = sampler.dataset_size();  // What drop_last leaves out is over, too.
  return end;
}

void DataLoader::load_state_dict(const SamplerPosition& position) {
  State& state = *state_;
  (void)state.require_position("load_state_dict");
  state.distributed->resume(position);
  if (!state.is_prepared()) {
    state.drop_prepared();
    state.begun.reset();
    state.again = false;
  }
}

const DataLoaderOptions& DataLoader::options() const { return state_->options; }

DataLoader::Iterator::Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) {
  try {
    batch_ = epoch_->next();
  } catch (...) {
    epoch_->close();
    throw;
  }
}

DataLoader::Iterator::~Iterator() {
  if (epoch_) {
    epoch_->close();
  }
}

DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&& other) noexcept {
  std::swap(epoch_, other.epoch_);
  std::swap(batch_, other.batch_);
  return *this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (!batch_) {
    throw UsageError("DataLoader: the epoch is at its end, expected no ++ behind it");
  }
  *batch_ = {};  // Its memory may be the next one's.
  batch_ = epoch_->next();
  return *this;
}

}  // namespace lockstep::data
