// Protects libraries that write to a broken connection and do not expect to be killed for it.
#pragma once

#include <csignal>

namespace lockstep {

// While it lives, this thread gets EPIPE instead of SIGPIPE. Threads that it starts meanwhile do so
// for ever. The program's own action for the signal does not change.
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
