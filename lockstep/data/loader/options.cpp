#include "lockstep/data/loader/options.h"

#include <algorithm>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep::data {
namespace {

// A worker that needs longer for one batch will not come back.
constexpr std::chrono::minutes kDefaultTimeout{30};
constexpr int kDefaultPrefetchFactor = 2;
constexpr int kMostPrefetchFactor = 10'000;

[[noreturn]] void refuse_options(const std::string& what) {
  throw UsageError("DataLoader: " + what);
}

void check_samplers(const DataLoaderOptions& options) {
  if (options.sampler && options.shuffle) {
    refuse_options("sampler and shuffle are both given, expected one: a sampler decides the order");
  }
  if (options.batch_sampler &&
      (options.batch_size != 1 || options.shuffle || options.sampler || options.drop_last)) {
    refuse_options(
        "batch_sampler is given with batch_size, shuffle, sampler or drop_last, expected it "
        "alone: it decides what a batch is");
  }
  if (options.batch_size < 1) {
    refuse_options("batch_size is " + std::to_string(options.batch_size) + ", expected 1 or more");
  }
}

void check_workers(const DataLoaderOptions& options) {
  if (options.num_workers < 0 && options.num_workers != kAuto) {
    refuse_options("num_workers is " + std::to_string(options.num_workers) +
                   ", expected 0 or more, or kAuto");
  }
  if (options.timeout && options.timeout->count() < 0) {
    refuse_options("timeout is " + std::to_string(options.timeout->count()) +
                   " ms, expected 0 (none) or more");
  }
  if (options.num_workers == 0 && options.prefetch_factor) {
    refuse_options(
        "prefetch_factor is given with num_workers 0, expected it with workers alone: without "
        "them nothing is made ahead");
  }
  if (options.num_workers == 0 && options.timeout && options.timeout->count() > 0) {
    refuse_options(
        "timeout is given with num_workers 0, expected it with workers alone: nobody could be "
        "waited for");
  }
  if (options.prefetch_factor &&
      (*options.prefetch_factor < 1 || *options.prefetch_factor > kMostPrefetchFactor)) {
    refuse_options("prefetch_factor is " + std::to_string(*options.prefetch_factor) +
                   ", expected 1 to " + std::to_string(kMostPrefetchFactor));
  }
}

}  // namespace

int automatic_workers() {
  const auto ranks = Environment::of_this_process().get_int("LOCAL_WORLD_SIZE").value_or(1);
  return std::max(1, usable_cores() / static_cast<int>(std::clamp<std::int64_t>(ranks, 1, 1024)));
}

DataLoaderOptions checked(DataLoaderOptions options, const Dataset& dataset) {
  check_samplers(options);
  check_workers(options);
  if (options.num_workers == kAuto) {
    options.num_workers = dataset.is_in_memory() ? 0 : automatic_workers();
  }
  options.timeout = options.timeout.value_or(kDefaultTimeout);
  options.prefetch_factor = options.prefetch_factor.value_or(kDefaultPrefetchFactor);
  return options;
}

}  // namespace lockstep::data
