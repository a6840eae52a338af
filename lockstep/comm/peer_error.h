// Turns what c10d throws into an error that says who was doing what.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace lockstep::comm {

// Our own errors pass unchanged. c10d's argument checks become UsageError, everything else
// PeerError. The message is `what` (operation and rank), c10d's words without its stack trace, and
// what to do.
[[noreturn]] void rethrow_as_peer_error(const std::string& what);

template <class Function>
auto as_peer_error(const std::string& what, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::exception&) {
    rethrow_as_peer_error(what);
  }
}

}  // namespace lockstep::comm
