#include "lockstep/base/no_sigpipe.h"

#include <ctime>

namespace lockstep {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGPIPE);
  return set;
}

bool is_pending() {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

NoSigpipe::NoSigpipe() : was_pending_(is_pending()) {
  const auto set = only_sigpipe();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

// One that came meanwhile is taken away: let through, it would be delivered now.
NoSigpipe::~NoSigpipe() {
  if (!was_pending_ && is_pending()) {
    const auto set = only_sigpipe();
    const timespec at_once{};
    ::sigtimedwait(&set, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace lockstep
