// One way of a DataLoader through its data, which its iterator and the loader share.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "lockstep/data/loader/batch_maker.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/data/loader/epoch_plan.h"
#include "lockstep/data/loader/shared_batches.h"
#include "lockstep/data/loader/transfer.h"
#include "lockstep/data/workers/worker_pool.h"

namespace lockstep::data {

// Null without workers.
struct EpochWorkers {
  std::shared_ptr<WorkerPool> pool;
  std::int64_t parts = 1;  // In a batch, made by several of them; see SharedBatches.
};

class DataLoader::Epoch {
 public:
  // The pool begins with the first batches at once. Without a pool they are made in next().
  Epoch(std::shared_ptr<const EpochPlan> plan, std::shared_ptr<const BatchMaker> maker,
        const Transfer& transfer, EpochWorkers workers);

  // Null at the end. Throws as Iterator::operator++ does.
  std::unique_ptr<Sample> next();

  // Gives the pool free for another epoch.
  void close();

  [[nodiscard]] bool is_over() const { return given_ == plan_->size(); }
  [[nodiscard]] std::int64_t samples_given() const { return plan_->samples_of(given_); }

 private:
  std::unique_ptr<Sample> next_of_workers();

  std::shared_ptr<const EpochPlan> plan_;
  std::shared_ptr<const BatchMaker> maker_;
  Transfer transfer_;
  std::shared_ptr<WorkerPool> pool_;
  std::int64_t parts_;
  std::shared_ptr<SharedBatches> batches_;  // Null if a batch has one part.
  std::int64_t given_ = 0;
  std::exception_ptr error_;  // From a part of the next batch.
  bool closed_ = false;
};

}  // namespace lockstep::data
