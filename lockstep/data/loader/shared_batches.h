// Batches that workers make together, each a part of the samples.
//
// The parts of a batch are numbers of the workers' job that follow each other, so all workers are
// at the first batch first. Whoever is the last to finish a part puts the batch together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "lockstep/data/loader/batch_maker.h"
#include "lockstep/data/loader/epoch_plan.h"
#include "lockstep/data/loader/transfer.h"

namespace lockstep::data {

class SharedBatches {
 public:
  // Each batch has so many parts.
  SharedBatches(std::shared_ptr<const EpochPlan> plan, std::shared_ptr<const BatchMaker> maker,
                const Transfer& transfer, std::int64_t parts);

  // Makes part `number` % parts of batch `number` / parts, in a worker. What it gives has the batch
  // once all parts of it were made, each once; not if one of them has thrown.
  std::shared_ptr<Transferred> make_part(std::int64_t number);

  // Forgets a batch that will not be put together: nobody will make a part of it any more.
  void drop(std::int64_t batch);

 private:
  struct Making;

  // One of them for all parts of a batch.
  std::shared_ptr<Making> join(std::int64_t batch);

  std::shared_ptr<const EpochPlan> plan_;
  std::shared_ptr<const BatchMaker> maker_;
  Transfer transfer_;
  std::int64_t parts_;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<Making>> open_;  // Batches with parts that nobody has.
};

}  // namespace lockstep::data
