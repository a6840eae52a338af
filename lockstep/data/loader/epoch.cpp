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
                         std::shared_ptr<WorkerPool> pool)
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

std::unique_ptr<Sample> DataLoader::Epoch::next() {
  if (given_ == plan_->size()) {
    return nullptr;
  }
  if (closed_) {
    throw UsageError(
        "DataLoader: this epoch was ended by a later begin() or prefetch() of the same loader; use "
        "one loader for each of two loops that run at the same time");
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

void DataLoader::Epoch::close() {
  if (!closed_ && pool_) {
    pool_->stop();
  }
  closed_ = true;
}

}  // namespace lockstep::data
