#include "lockstep/comm/backends/shm/arena_source.h"

#include <c10/core/Allocator.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/shm/backend.h"

namespace lockstep::comm {

MemorySource::Memory ArenaSource::memory_for(std::size_t bytes) {
  if (bytes < kLeastBytes || is_over_) {
    return {};
  }
  const auto memory = memory_.lock();
  if (!memory) {
    is_over_ = true;
    return {};
  }
  try {
    auto block = shm::allocate(memory, rank_, bytes);
    void* const data = block.get();
    return {data, c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                               c10::InefficientStdFunctionContext::makeDataPtr(
                                   data, [block = std::move(block)](void*) {}, c10::kCPU))};
  } catch (const UsageError&) {  // A fork, or the group is left.
    is_over_ = true;
  } catch (const IoError&) {  // Too little memory now.
  }
  return {};
}

std::shared_ptr<MemorySource> ShmBackend::arena_source() const {
  return std::make_shared<ArenaSource>(group_->team->memory(), getRank());
}

ShmBackend::MemoryStats ShmBackend::memory_stats() const {
  const auto& team = *group_->team;
  return {.arena = team.memory()->arena(getRank()).memory_use(), .copied_bytes = team.copied()};
}

}  // namespace lockstep::comm
