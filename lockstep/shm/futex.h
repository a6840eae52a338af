// Sleeping on a word of shared memory until another process changes it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::shm {

// Sleeps while the word is `expected`, at most `limit`. Returns early for no reason at times: the
// caller looks at its condition again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds limit);

// Wakes all that sleep on the word, in any process.
void futex_wake(std::atomic<std::uint32_t>& word);

}  // namespace lockstep::shm
