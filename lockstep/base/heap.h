// How malloc treats memory that is freed.
#pragma once

#include <cstddef>

#include "lockstep/base/environment.h"

namespace lockstep {

// Asks malloc, for the whole process, to keep up to `bytes` of freed memory for later allocations.
// Otherwise it returns the memory to the kernel, which clears every page before it hands it out
// again. Asking for less than before changes nothing.
//
// Does nothing and returns false if the user has set MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_
// or GLIBC_TUNABLES.
bool keep_freed_memory(std::size_t bytes, const Environment& environment);

// The same for programs that this process starts or becomes, if their LibTorch brings mimalloc, as
// the one for ARM does: sets MIMALLOC_PURGE_DELAY unless the user has set it. mimalloc reads it
// when it is loaded, so it is too late in a program that has LibTorch. Must not be called while
// other threads run.
void keep_freed_memory_of_mimalloc();

}  // namespace lockstep
