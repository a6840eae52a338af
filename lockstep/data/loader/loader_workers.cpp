#include "lockstep/data/loader/loader_workers.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>

#include "lockstep/data/datasets/error_place.h"
#include "lockstep/data/loader/one_thread.h"

namespace lockstep::data {
namespace {

// In a fork LibTorch makes its threads anew on first use, and two at a time fail at that.
std::function<void()> use_one_thread_one_by_one() {
  return [one_by_one = std::make_shared<std::mutex>()] {
    const std::lock_guard lock(*one_by_one);
    use_one_thread();
  };
}

std::function<void(int)> initializer(const std::function<void(int)>& worker_init_fn) {
  if (!worker_init_fn) {
    return nullptr;
  }
  return [worker_init_fn](int worker) {
    with_place(
        [&] { return "DataLoader: worker_init_fn of worker " + std::to_string(worker) + ": "; },
        [&] { worker_init_fn(worker); });
  };
}

}  // namespace

bool consumer_helps(const DataLoaderOptions& given) {
  return given.num_workers == kAuto && !given.worker_init_fn;
}

std::int64_t parts_of_batch(const DataLoaderOptions& options, bool is_helped) {
  constexpr std::int64_t kFewestSamples = 4;
  constexpr std::int64_t kHelped = 8;  // Nobody waits long for a worker that has begun late.
  const std::int64_t samples =
      options.batch_sampler ? options.batch_sampler->batch_size() : options.batch_size;
  const std::int64_t wanted = std::max<std::int64_t>(options.num_workers, is_helped ? kHelped : 1);
  return std::clamp<std::int64_t>(samples / kFewestSamples, 1, wanted);
}

std::shared_ptr<WorkerPool> LoaderWorkers::for_epoch(const DataLoaderOptions& options,
                                                     std::int64_t batches, std::int64_t parts) {
  const auto most = std::max<std::int64_t>(batches * parts, 1);
  const int wanted = static_cast<int>(std::min<std::int64_t>(options.num_workers, most));
  if (wanted > 0 && (!in_owner() || pool_->num_workers() < wanted || pool_->has_init_error())) {
    const std::int64_t ahead = std::int64_t{*options.prefetch_factor} * wanted;
    at::get_num_threads();  // Makes LibTorch's threads anew in a fork, before others ask.
    pool_.reset();          // Its threads end with the epoch that has them.
    pool_ = std::make_shared<WorkerPool>(
        WorkerPoolOptions{.num_workers = wanted,
                          .prefetch = ahead * parts,
                          .parts = parts,
                          .timeout = *options.timeout,
                          .prepare_thread = use_one_thread_one_by_one(),
                          .worker_init_fn = initializer(options.worker_init_fn)});
  }
  return pool_;
}

}  // namespace lockstep::data
