// Makes a batch of an epoch: what a worker does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/loader/epoch_plan.h"
#include "lockstep/data/loader/mixup.h"

namespace lockstep::data {

// Threads may use it at the same time.
class BatchMaker {
 public:
  using CollateFn = std::function<Sample(std::vector<Sample>)>;

  // Without a collate_fn: get_batch() where the data set has it, else default_collate().
  // A `batch_transform` comes last.
  BatchMaker(std::shared_ptr<const Dataset> dataset, CollateFn collate_fn,
             BatchTransform batch_transform = {});

  // Errors name batch and sample: lockstep's keep their type, others are nested in an Error.
  [[nodiscard]] Sample make(const EpochPlan& plan, std::int64_t number) const;

  // The same in steps, for threads that make a batch together: start(), make_sample() for each
  // place in the batch, where threads may make different ones at the same time, finish().
  struct Started {
    std::unique_ptr<SharedBatch> in_place;  // Or, if it is null,
    std::vector<Sample> samples;            // what is collated.
  };
  [[nodiscard]] Started start(const EpochPlan& plan, std::int64_t number) const;
  void make_sample(const EpochPlan& plan, std::int64_t number, Started& batch,
                   std::size_t place) const;
  [[nodiscard]] Sample finish(const EpochPlan& plan, std::int64_t number, Started batch) const;

  // Whether threads should do so.
  [[nodiscard]] bool shares_batches() const { return dataset_->shares_batches(); }

 private:
  [[nodiscard]] Sample transformed(const EpochPlan& plan, std::int64_t number, Sample batch) const;

  std::shared_ptr<const Dataset> dataset_;
  CollateFn collate_fn_;
  BatchTransform batch_transform_;
};

}  // namespace lockstep::data
