// Turns what c10d throws into an error that says who was doing what.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

// Our own errors pass unchanged. c10d's argument checks become UsageError, everything else
// PeerError. The message is `what` (operation and rank), c10d's words without its stack trace, and
// what to do.
[[noreturn]] void rethrow_as_peer_error(const std::string& what);

// Whether Gloo's message is about the caller's arguments; otherwise it is about the peers.
bool is_argument_error(const std::string& words);

// What c10d or Gloo said, in one line, without its source position, stack and advice.
std::string words_of(const std::exception& error);

template <class Function>
auto as_peer_error(const std::string& what, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::exception&) {
    rethrow_as_peer_error(what);
  }
}

}  // namespace lockstep::comm
