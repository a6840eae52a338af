#include "lockstep/data/datasets/dataset.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

Sample Dataset::get_in_epoch(std::int64_t index, const EpochSeed& /*epoch*/) const {
  return get(index);
}

std::optional<Sample> Dataset::get_batch(std::span<const std::int64_t> /*indices*/,
                                         const EpochSeed& /*epoch*/) const {
  return std::nullopt;
}

std::unique_ptr<SharedBatch> Dataset::start_batch(std::span<const std::int64_t> /*indices*/,
                                                  const EpochSeed& /*epoch*/) const {
  return nullptr;
}

void require_index(const char* who, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) {
    throw UsageError(std::string(who) + ": index " + std::to_string(index) +
                     " is out of range, expected 0 to " + std::to_string(size - 1));
  }
}

}  // namespace lockstep::data
