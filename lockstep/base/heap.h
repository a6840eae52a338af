// How malloc treats memory that is freed.
#pragma once

#include <cstddef>

#include "lockstep/base/environment.h"

namespace lockstep {

// Asks malloc to keep up to `bytes` of freed memory for the next allocation, of the whole process,
// instead of handing them back to the kernel, which clears every page before it gives it out again.
// Asking for less than before changes nothing.
//
// Does nothing, and returns false, where the user has decided: by MALLOC_TRIM_THRESHOLD_,
// MALLOC_MMAP_THRESHOLD_ or GLIBC_TUNABLES.
bool keep_freed_memory(std::size_t bytes, const Environment& environment);

}  // namespace lockstep
