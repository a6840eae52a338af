// What the exceptions of c10d, Gloo and NCCL are about.
//
// Each has one type for many faults: a gloo::IoException is a wait that was over or a connection
// that broke, and c10d's argument checks are plain c10::Errors. Where a type does not tell, the
// words are read, here and nowhere else. tests/comm/library_errors_test.cpp lets the LibTorch in
// use throw each of them.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace lockstep::comm {

// A connection of Gloo's was closed, and Gloo did not throw.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Fault {
  kArguments,   // The caller's.
  kLate,        // A wait was over.
  kSilent,      // The kernel gave a connection up.
  kConnection,  // A peer closed one, or it broke.
  kHere,        // Something else, on this rank.
};
Fault fault_of(const std::exception& error);

// Whether its type alone says that it is of a peer, a connection or a wait: words that a user's own
// exception may have, too, are not read.
bool is_of_a_peer(const std::exception& error);

// What c10d, Gloo or NCCL said, in one line, without its source position, stack and advice.
std::string words_of(const std::exception& error);

}  // namespace lockstep::comm
