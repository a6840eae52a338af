#include "lockstep/base/sockets/no_sigpipe.h"

#include <ctime>

namespace lockstep {
namespace {

sigset_t only(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

bool is_pending(int signal) {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return ::sigismember(&pending, signal) == 1;
}

}  // namespace

NoSignal::NoSignal(int signal) : signal_(signal), was_pending_(is_pending(signal)) {
  const auto set = only(signal_);
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

// Discards a signal that came meanwhile: unblocked, it would be delivered now.
NoSignal::~NoSignal() {
  if (!was_pending_ && is_pending(signal_)) {
    const auto set = only(signal_);
    const timespec at_once{};
    ::sigtimedwait(&set, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace lockstep
