// Turns what c10d throws into an error that says who was doing what.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

// Our own errors pass unchanged. c10d's argument checks become UsageError, everything else
// PeerError. The message is `what` (operation and rank), c10d's words without its stack trace, and
// what to do.
[[noreturn]] void rethrow_as_peer_error(const std::string& what);

// A connection of Gloo's was closed, and Gloo did not throw.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What an exception is about. c10d and Gloo have one type for many faults: where a type does not
// tell, their words are read, here and nowhere else.
enum class Fault {
  kArguments,   // The caller's.
  kLate,        // A wait was over.
  kSilent,      // The kernel gave a connection up.
  kConnection,  // A peer closed one, or it broke.
  kHere,        // Something else, on this rank.
};
Fault fault_of(const std::exception& error);

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
