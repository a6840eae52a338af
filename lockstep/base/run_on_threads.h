// Work that several threads share.
#pragma once

#include <cstddef>
#include <functional>

namespace lockstep {

// Calls `work` in this thread and beside it in others, `threads` in all, and returns when each has
// done its part; where the system has no more threads, with those that it gives. Throws what one of
// them threw, after all have ended.
void run_on_threads(std::size_t threads, const std::function<void()>& work);

}  // namespace lockstep
