#include "lockstep/data/loader/loader_workers.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>

#include "lockstep/data/datasets/error_place.h"
#include "lockstep/data/loader/one_thread.h"

namespace lockstep::data {
namespace {

// What each worker calls before its first batch.
std::function<void(int)> initializer(const DataLoaderOptions& options) {
  // In a fork LibTorch makes its threads anew on first use, and two at a time fail at that.
  const auto one_by_one = std::make_shared<std::mutex>();
  return [one_by_one, user = options.worker_init_fn](int worker) {
    {
      const std::lock_guard lock(*one_by_one);
      use_one_thread();
    }
    if (user) {
      with_place(
          [&] { return "DataLoader: worker_init_fn of worker " + std::to_string(worker) + ": "; },
          [&] { user(worker); });
    }
  };
}

}  // namespace

std::int64_t parts_of_batch(const DataLoaderOptions& options) {
  constexpr std::int64_t kFewestSamples = 4;
  const std::int64_t samples =
      options.batch_sampler ? options.batch_sampler->batch_size() : options.batch_size;
  return std::clamp<std::int64_t>(samples / kFewestSamples, 1, std::max(options.num_workers, 1));
}

std::shared_ptr<WorkerPool> LoaderWorkers::for_epoch(const DataLoaderOptions& options,
                                                     std::int64_t batches, std::int64_t parts) {
  const auto most = std::max<std::int64_t>(batches * parts, 1);
  const int wanted = static_cast<int>(std::min<std::int64_t>(options.num_workers, most));
  if (wanted > 0 && (!in_owner() || pool_->num_workers() < wanted || pool_->has_init_error())) {
    const std::int64_t ahead = std::int64_t{*options.prefetch_factor} * wanted;
    pool_.reset();  // Its threads end with the epoch that has them.
    pool_ = std::make_shared<WorkerPool>(WorkerPoolOptions{.num_workers = wanted,
                                                           .prefetch = ahead * parts,
                                                           .parts = parts,
                                                           .timeout = *options.timeout,
                                                           .worker_init_fn = initializer(options)});
  }
  return pool_;
}

}  // namespace lockstep::data
