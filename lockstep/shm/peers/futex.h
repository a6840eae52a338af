// Sleeping on a word of shared memory until another process changes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::shm {

// Sleeps while the word is `expected`, at most for `limit`. May wake up spuriously: the caller
// checks its condition again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds limit);

// Wakes all threads that sleep on the word, in any process.
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace lockstep::shm
