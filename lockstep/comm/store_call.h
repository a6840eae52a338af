// Calls of a store that must not block for ever.
//
// A call of c10d::TCPStore has no time limit: if the store's host is stopped or cut off, it returns
// when the connection ends, which may be never. A thread that waits can leave the call behind.
#pragma once

#include <chrono>
#include <functional>

namespace lockstep::comm {

// Runs `call` in a thread of its own and waits for its end, for at most `limit`. What it throws is
// lost. False if it has not ended, and runs on: it must own what it uses. False, too, if the system
// gives no thread.
bool within(std::chrono::milliseconds limit, std::function<void()> call) noexcept;

}  // namespace lockstep::comm
