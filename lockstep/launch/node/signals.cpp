#include "lockstep/launch/node/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "lockstep/base/process/stop_notice.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

UniqueFd open_signalfd(const sigset_t& signals) {
  UniqueFd fd(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) {
    throw_errno("opening a signal descriptor");
  }
  return fd;
}

}  // namespace

Signals::Signals(const std::vector<int>& handled) {
  ::sigemptyset(&handled_);
  ::sigemptyset(&watched_);
  for (const int signal : handled) {
    if (signal != SIGHUP || !is_ignored(SIGHUP)) {
      ::sigaddset(&handled_, signal);
      ::sigaddset(&watched_, signal);
    }
  }
  for (const int signal : {SIGCHLD, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&watched_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
  // Where our caller ignores SIGCHLD the kernel would reap our children unseen and tell nobody.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  ::sigaction(SIGXFSZ, &ignore, &file_size_before_);
  fd_ = open_signalfd(watched_);
}

std::optional<int> Signals::next() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

Signals::~Signals() {
  ::sigaction(SIGXFSZ, &file_size_before_, nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void Signals::restore_in_child() const {
  ::sigaction(SIGXFSZ, &file_size_before_, nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  // We end workers by these signals, so workers must not inherit that a script in the background,
  // or a service, had them ignored or blocked. SIGHUP under nohup is not one of them.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigset_t mask = before_;
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    if (signal == SIGTERM || signal == SIGCHLD || ends_job(signal)) {
      ::sigaction(signal, &standard, nullptr);
      ::sigdelset(&mask, signal);
    }
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

bool EchoFilter::is_echo(int signal, SignalPath path, Deadline::Clock::time_point now) {
  const auto seen = unmatched_.find(signal);
  if (seen != unmatched_.end() && seen->second.path != path && now - seen->second.at < kEchoLimit) {
    unmatched_.erase(seen);
    return true;
  }
  unmatched_[signal] = {path, now};
  return false;
}

}  // namespace lockstep::launch
