// The worker threads of a DataLoader: how many an epoch gets, how each is initialized, and into how
// many parts they share a batch.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data/loader/options.h"
#include "lockstep/data/workers/worker_pool.h"

namespace lockstep::data {

// So that the first batch is there soon, and workers have something to do where there are fewer
// batches than workers. A part has some samples, so that taking it costs little beside them.
std::int64_t parts_of_batch(const DataLoaderOptions& options);

// They stay from epoch to epoch.
class LoaderWorkers {
 public:
  // The workers of an epoch that has this many batches of `parts` parts each: no more than have
  // something to do. They are made anew if the present ones are too few, as after a resumed epoch,
  // or could not be initialized. Null if the loader has no workers.
  std::shared_ptr<WorkerPool> for_epoch(const DataLoaderOptions& options, std::int64_t batches,
                                        std::int64_t parts);

  // Whether there are some, of this process.
  [[nodiscard]] bool in_owner() const { return pool_ && pool_->in_owner(); }

 private:
  std::shared_ptr<WorkerPool> pool_;
};

}  // namespace lockstep::data
