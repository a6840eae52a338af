#include "lockstep/data/loader/shared_batches.h"

#include <atomic>
#include <utility>

namespace lockstep::data {

struct SharedBatches::Making {
  explicit Making(std::int64_t parts) : not_taken(parts), not_made(parts) {}

  std::int64_t not_taken;  // With the lock.
  bool is_started = false;
  BatchMaker::Started batch;
  std::atomic<std::int64_t> not_made;
  Transferred result;
};

SharedBatches::SharedBatches(std::shared_ptr<const EpochPlan> plan,
                             std::shared_ptr<const BatchMaker> maker, const Transfer& transfer,
                             std::int64_t parts)
    : plan_(std::move(plan)), maker_(std::move(maker)), transfer_(transfer), parts_(parts) {}

std::shared_ptr<SharedBatches::Making> SharedBatches::join(std::int64_t batch) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Making>& entry = open_[batch];
  if (!entry) {
    entry = std::make_shared<Making>(parts_);
  }
  std::shared_ptr<Making> making = entry;
  if (--making->not_taken == 0) {
    open_.erase(batch);
  }
  if (!making->is_started) {  // Takes memory, no more, so the others can wait.
    making->batch = maker_->start(*plan_, batch);
    making->is_started = true;
  }
  return making;
}

void SharedBatches::drop(std::int64_t batch) {
  std::shared_ptr<Making> dropped;  // Is gone once the lock is free.
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(batch); found != open_.end()) {
    dropped = std::move(found->second);
    open_.erase(found);
  }
}

std::shared_ptr<Transferred> SharedBatches::make_part(std::int64_t number) {
  const std::int64_t batch = number / parts_;
  const auto making = join(batch);
  const std::size_t samples = plan_->batch(batch).size();
  const auto parts = static_cast<std::size_t>(parts_);
  const auto part = static_cast<std::size_t>(number % parts_);
  for (std::size_t place = samples * part / parts; place < samples * (part + 1) / parts; ++place) {
    maker_->make_sample(*plan_, batch, making->batch, place);
  }
  // Releases what this thread has written to the last one, which acquires it.
  if (making->not_made.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    making->result =
        transfer_.start(maker_->finish(*plan_, batch, std::exchange(making->batch, {})));
  }
  return {making, &making->result};
}

}  // namespace lockstep::data
