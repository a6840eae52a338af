#include "lockstep/data/samplers/global_batch.h"

#include <limits>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::data {

std::int64_t batch_size_per_rank(const GlobalBatch& batch) {
  if (batch.size < 1 || batch.world_size < 1 || batch.accumulation < 1 ||
      batch.world_size > std::numeric_limits<std::int32_t>::max() ||
      batch.accumulation > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("global batch: " + std::to_string(batch.size) + " samples on " +
                     std::to_string(batch.world_size) + " ranks with " +
                     std::to_string(batch.accumulation) +
                     " accumulation steps, expected at least 1 of each and less than 2^31 of the "
                     "last two");
  }
  const std::int64_t parts = batch.world_size * batch.accumulation;
  const std::int64_t rest = batch.size % parts;
  if (rest != 0) {
    const std::int64_t below = batch.size - rest;
    const std::int64_t nearest = below > 0 && rest <= parts - rest ? below : below + parts;
    throw UsageError("global batch: " + std::to_string(batch.size) + " samples on " +
                     counted(batch.world_size, "rank") + " with " +
                     counted(batch.accumulation, "accumulation step") +
                     ", expected a multiple of " + std::to_string(parts) +
                     "; the nearest that fits is " + std::to_string(nearest));
  }
  return batch.size / parts;
}

}  // namespace lockstep::data
