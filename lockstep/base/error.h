// The three errors of lockstep, one per decision a caller can take.
//
// A message names the operation and who ran it, what happened, what was
// expected and what to do; it never needs a second line to be understood.
#pragma once

#include <stdexcept>

namespace lockstep {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The call, a flag or an environment variable is wrong: fix it and call again.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Another rank, node or the store is gone, late or does something else: the
// group is no longer usable; restart the job or form a new group.
class PeerError : public Error {
 public:
  using Error::Error;
};

// The operating system refused something (disk, memory, descriptors): look at the machine.
class IoError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
