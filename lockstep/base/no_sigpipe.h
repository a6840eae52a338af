// Writing to a connection that is broken, with libraries that do not expect to be killed for it.
#pragma once

#include <csignal>

namespace lockstep {

// While it lives, this thread gets EPIPE and no SIGPIPE; so do, for ever, threads that it starts.
// The action that the program has set for the signal stays what it is.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace lockstep
