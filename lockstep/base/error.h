// The three errors of lockstep, one per decision a caller can take.
//
// A message names the operation and who ran it, what happened, what was
// expected and what to do; it never needs a second line to be understood.
#pragma once

#include <stdexcept>
#include <string>

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
  enum class Cause {
    kGone,  // Or anything else than lateness.
    kLate,  // A wait was over, here or on another rank.
  };
  explicit PeerError(const std::string& text, Cause cause = Cause::kGone)
      : Error(text), cause_(cause) {}
  [[nodiscard]] Cause cause() const { return cause_; }
  // The same, with the operation in front.
  [[nodiscard]] PeerError during(const std::string& operation) const {
    return PeerError(operation + ": " + what(), cause_);
  }

 private:
  Cause cause_;
};

// The operating system refused something (disk, memory, descriptors): look at the machine.
class IoError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
