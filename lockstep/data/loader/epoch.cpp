#include "lockstep/data/loader/epoch.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

std::unique_ptr<Sample> finished(Transferred batch) {
  return std::make_unique<Sample>(Transfer::finish(std::move(batch)));
}

}  // namespace

DataLoader::Epoch::Epoch(std::shared_ptr<const EpochPlan> plan,
                         std::shared_ptr<const BatchMaker> maker, const Transfer& transfer,
                         EpochWorkers workers)
    : plan_(std::move(plan)),
      maker_(std::move(maker)),
      transfer_(transfer),
      pool_(std::move(workers.pool)),
      parts_(workers.parts) {
  if (!pool_) {
    return;
  }
  if (parts_ == 1) {
    pool_->start(
        [plan = plan_, maker = maker_, transfer](std::int64_t number) {
          return std::make_shared<Transferred>(transfer.start(maker->make(*plan, number)));
        },
        plan_->size());
  } else {
    batches_ = std::make_shared<SharedBatches>(plan_, maker_, transfer, parts_);
    pool_->start([batches = batches_](std::int64_t number) { return batches->make_part(number); },
                 plan_->size() * parts_);
  }
}

std::unique_ptr<Sample> DataLoader::Epoch::next() {
  if (given_ == plan_->size()) {
    return nullptr;
  }
  if (closed_) {
    throw UsageError(
        "DataLoader: this epoch was ended by a later begin() or prefetch() of the same loader; use "
        "one loader for each of two loops that run at the same time");
  }
  return pool_ ? next_of_workers() : finished(transfer_.start(maker_->make(*plan_, given_++)));
}

// All parts of the batch are waited for, also if one has failed: of several errors that of the
// first sample is thrown, as it would be without parts.
std::unique_ptr<Sample> DataLoader::Epoch::next_of_workers() {
  WorkerPool::Result result;
  for (std::int64_t got = pool_->given(); got < (given_ + 1) * parts_; got = pool_->given()) {
    try {
      result = pool_->next();
    } catch (...) {
      if (pool_->given() == got) {  // It is not there in time; the next call waits for it again.
        throw;
      }
      error_ = error_ ? error_ : std::current_exception();
    }
  }
  const std::int64_t batch = given_++;
  if (error_) {
    if (batches_) {  // A worker that could not begin has not made its part.
      batches_->drop(batch);
    }
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  return finished(std::move(*static_cast<Transferred*>(result.get())));
}

void DataLoader::Epoch::close() {
  if (!closed_ && pool_) {
    pool_->stop();
    batches_.reset();  // With the parts of batches that stay unfinished.
  }
  closed_ = true;
}

}  // namespace lockstep::data
