// Makes a batch of an epoch: what a worker does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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

 private:
  [[nodiscard]] Sample gather(const EpochPlan& plan, std::int64_t number,
                              const std::string& name) const;

  std::shared_ptr<const Dataset> dataset_;
  CollateFn collate_fn_;
  BatchTransform batch_transform_;
};

}  // namespace lockstep::data
