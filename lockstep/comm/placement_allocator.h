// An allocator that places tensors in memory of the caller's choice while LibTorch allocates them,
// so that they need not be copied there.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>

#include "lockstep/base/environment.h"

namespace lockstep::comm {

// Asked for memory for every CPU tensor that a thread allocates.
class MemorySource {
 public:
  struct Memory {
    void* data = nullptr;
    c10::Storage owner;  // Owns the memory; kept until the tensor is gone.
  };

  virtual ~MemorySource() = default;
  // Memory for a tensor of this many bytes, or nothing: then LibTorch's allocator provides it.
  virtual Memory memory_for(std::size_t bytes) = 0;
  // Told where that tensor was allocated.
  virtual void made(const void* data, std::size_t bytes) = 0;
  // Whether it is in use, so that another memory source must not replace it.
  [[nodiscard]] virtual bool is_busy() const = 0;
};

// Puts an allocator in front of LibTorch's CPU allocator, for good. To be called while the program
// starts, as c10 requires; harmless when repeated. If LOCKSTEP_ALLOCATE_IN_BUCKETS is 0, turns
// placement off instead. If the program has set its own allocator with c10::SetCPUAllocator(),
// leaves that in place and warns once.
void install_placement_allocator(const Environment& environment);

// Whether our allocator is installed, so that tensors ask a memory source. Warns once if another
// allocator replaced it.
bool placement_is_on();

// Sets the memory source that this thread's tensors ask from now on; null: none.
void set_memory_source(std::shared_ptr<MemorySource> memory_source);
// Sets the one that the tensors of all other threads ask; it must be thread-safe. Each that was set
// is kept for good, because a thread may be asking it.
void set_memory_source_of_all_threads(std::shared_ptr<MemorySource> memory_source);
// The memory source of this thread alone; null if it has none.
std::shared_ptr<MemorySource> memory_source();

// Whether some tensor still uses this memory.
bool is_placed(const void* data);

}  // namespace lockstep::comm
