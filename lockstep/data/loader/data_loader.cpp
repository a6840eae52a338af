#include "lockstep/data/loader/data_loader.h"

#include <ATen/ops/empty.h>

#include <functional>
#include <mutex>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/batch_maker.h"
#include "lockstep/data/loader/epoch_plan.h"
#include "lockstep/data/loader/one_thread.h"
#include "lockstep/data/loader/transfer.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "lockstep/data/workers/worker_pool.h"

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

// Shares epoch and position with the sampler.
std::optional<DistributedSampler> as_distributed(const Sampler& sampler) {
  const auto* distributed = dynamic_cast<const DistributedSampler*>(&sampler);
  return distributed == nullptr ? std::nullopt : std::optional(*distributed);
}

}  // namespace

// One way through the data, which its iterator and the loader share.
class DataLoader::Epoch {
 public:
  // Without a pool batches are made in next().
  Epoch(std::shared_ptr<const EpochPlan> plan, std::shared_ptr<const BatchMaker> maker,
        const Transfer& transfer, std::shared_ptr<WorkerPool> pool)
      : plan_(std::move(plan)),
        maker_(std::move(maker)),
        transfer_(transfer),
        pool_(std::move(pool)) {
    if (pool_) {
      pool_->start(
          [plan = plan_, maker = maker_, transfer](std::int64_t number) {
            return std::make_shared<Transferred>(transfer.start(maker->make(*plan, number)));
          },
          plan_->size());
    }
  }

  // Null at the end.
  std::unique_ptr<Sample> next() {
    if (given_ == plan_->size()) {
      return nullptr;
    }
    if (closed_) {
      throw UsageError(
          "DataLoader: this epoch was ended by a later begin() of the same loader; use one loader "
          "for each of two loops that run at the same time");
    }
    if (!pool_) {
      return finished(transfer_.start(maker_->make(*plan_, given_++)));
    }
    try {
      const auto result = pool_->next();
      given_ = pool_->given();
      return finished(std::move(*static_cast<Transferred*>(result.get())));
    } catch (...) {
      given_ = pool_->given();
      throw;
    }
  }

  void close() {
    if (!closed_ && pool_) {
      pool_->stop();
    }
    closed_ = true;
  }

  [[nodiscard]] bool is_over() const { return given_ == plan_->size(); }
  [[nodiscard]] std::int64_t samples_given() const { return plan_->samples_of(given_); }

 private:
  static std::unique_ptr<Sample> finished(Transferred batch) {
    return std::make_unique<Sample>(Transfer::finish(std::move(batch)));
  }

  std::shared_ptr<const EpochPlan> plan_;
  std::shared_ptr<const BatchMaker> maker_;
  Transfer transfer_;
  std::shared_ptr<WorkerPool> pool_;
  std::int64_t given_ = 0;
  bool closed_ = false;
};

struct DataLoader::State {
  State(std::shared_ptr<const Dataset> set, DataLoaderOptions given)
      : options(checked(std::move(given), *set)),
        sampler(options.batch_sampler ? nullptr : sampler_of(options, set->size())),
        distributed(as_distributed(sampler ? *sampler : options.batch_sampler->sampler())),
        maker(std::make_shared<const BatchMaker>(std::move(set), options.collate_fn,
                                                 options.batch_transform)) {}

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

  // What each worker calls before its first batch.
  [[nodiscard]] std::function<void(int)> initializer() const {
    // In a fork LibTorch makes its threads anew on first use, and two at a time fail at that.
    const auto one_by_one = std::make_shared<std::mutex>();
    return [one_by_one, user = options.worker_init_fn](int worker) {
      {
        const std::lock_guard lock(*one_by_one);
        use_one_thread();
      }
      if (user) {
        user(worker);
      }
    };
  }

  std::shared_ptr<WorkerPool> workers() {
    if (options.num_workers > 0 && (!pool || !pool->in_owner())) {
      const std::int64_t prefetch = std::int64_t{*options.prefetch_factor} * options.num_workers;
      pool = std::make_shared<WorkerPool>(WorkerPoolOptions{.num_workers = options.num_workers,
                                                            .prefetch = prefetch,
                                                            .timeout = *options.timeout,
                                                            .worker_init_fn = initializer()});
    }
    return pool;
  }

  DataLoaderOptions options;
  std::shared_ptr<Sampler> sampler;  // Null if there is a batch sampler.
  std::optional<DistributedSampler> distributed;
  std::shared_ptr<const BatchMaker> maker;
  std::shared_ptr<WorkerPool> pool;
  std::shared_ptr<Epoch> epoch;          // The last one begun.
  std::optional<SamplerPosition> begun;  // Where it began.
  bool again = false;                    // set_epoch() asked for the same epoch once more.
  std::int64_t other_epoch = 0;          // The next one, of a sampler without epochs.
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : state_(std::make_unique<State>(std::move(dataset), std::move(options))) {}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&& other) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&& other) noexcept = default;

DataLoader::Iterator DataLoader::begin() {
  State& state = *state_;
  if (state.epoch) {
    state.epoch->close();
  }
  const EpochSeed seed = state.begin_sampler(draw_base_seed(state.options.generator));
  const auto& options = state.options;
  auto plan = options.batch_sampler
                  ? std::make_shared<const EpochPlan>(options.batch_sampler->batches(), seed)
                  : std::make_shared<const EpochPlan>(state.sampler->indices(), options.batch_size,
                                                      options.drop_last, seed);
  state.epoch = std::make_shared<Epoch>(
      std::move(plan), state.maker, Transfer(options.pin_memory, options.device), state.workers());
  return Iterator(state.epoch);
}

std::int64_t DataLoader::size() const {
  const auto& options = state_->options;
  if (options.batch_sampler) {
    return options.batch_sampler->size();
  }
  const std::int64_t samples = state_->sampler->size();
  return (options.drop_last ? samples : samples + options.batch_size - 1) / options.batch_size;
}

void DataLoader::set_epoch(std::int64_t epoch) {
  State& state = *state_;
  if (!state.distributed) {
    state.other_epoch = epoch;
    return;
  }
  state.again = state.begun && state.begun->epoch == epoch;
  state.distributed->set_epoch(epoch);
}

SamplerPosition DataLoader::state_dict() const {
  const State& state = *state_;
  const DistributedSampler& sampler = state.require_position("state_dict");
  if (!state.begun || state.again || sampler.position_after(0) != *state.begun) {
    return state.next_start();
  }
  if (!state.epoch->is_over()) {
    return sampler.position_after(state.epoch->samples_given());
  }
  SamplerPosition end = *state.begun;
  end.consumed = sampler.dataset_size();  // What drop_last leaves out is over, too.
  return end;
}

void DataLoader::load_state_dict(const SamplerPosition& position) {
  (void)state_->require_position("load_state_dict");
  state_->distributed->resume(position);
  state_->begun.reset();
  state_->again = false;
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
  *batch_ = {};  // Its memory may be the next one's.
  batch_ = epoch_->next();
  return *this;
}

}  // namespace lockstep::data
