#include "lockstep/base/heap.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>

namespace lockstep {
namespace {

// The most that glibc takes; larger blocks are always the kernel's.
constexpr int kLargestBlock = 32 << 20;

// Longer than a step, so that the next one finds the memory of the last. With mimalloc's 10 ms page
// faults took 16 % of the CPU time of `lockstep train` (Fashion-MNIST, 2-core Neoverse-V1,
// 2026-11-17).
constexpr const char* kPurgeDelayMs = "10000";

// malloc's settings are the process's, and cannot be read.
std::mutex mutex;
std::size_t kept_bytes = 0;

}  // namespace

bool keep_freed_memory(std::size_t bytes, const Environment& environment) {
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (environment.get(name)) {
      return false;
    }
  }
  const std::lock_guard lock(mutex);
  bool taken = true;
  if (bytes > kept_bytes) {
    kept_bytes = bytes;
    // Setting one of them ends glibc's guesses at the other.
    const auto most = static_cast<int>(std::min<std::size_t>(
        kept_bytes, static_cast<std::size_t>(std::numeric_limits<int>::max())));
    taken =
        ::mallopt(M_MMAP_THRESHOLD, kLargestBlock) == 1 && ::mallopt(M_TRIM_THRESHOLD, most) == 1;
  }
  return taken;
}

void keep_freed_memory_of_mimalloc() {
  ::setenv("MIMALLOC_PURGE_DELAY", kPurgeDelayMs, /*replace=*/0);
}

}  // namespace lockstep
