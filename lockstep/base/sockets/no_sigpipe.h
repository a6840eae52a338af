// Protects writers that do not expect to be killed for a write: they get an error instead.
#pragma once

#include <csignal>

namespace lockstep {

// While it lives, this thread does not get a signal that the kernel sends to the thread that
// writes. Threads started meanwhile inherit the block and keep it. The program's own action for the
// signal does not change.
class NoSignal {
 public:
  NoSignal(const NoSignal&) = delete;
  NoSignal& operator=(const NoSignal&) = delete;

 protected:
  explicit NoSignal(int signal);
  ~NoSignal();

 private:
  int signal_;
  sigset_t before_{};
  bool was_pending_ = false;
};

// For libraries that write to a broken connection: EPIPE instead of SIGPIPE.
class NoSigpipe : public NoSignal {
 public:
  NoSigpipe() : NoSignal(SIGPIPE) {}
};

// For files that grow over `ulimit -f`: EFBIG instead of SIGXFSZ.
class NoSigxfsz : public NoSignal {
 public:
  NoSigxfsz() : NoSignal(SIGXFSZ) {}
};

}  // namespace lockstep
