#include "lockstep/launch/node/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "lockstep/base/process/stop_notice.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

// The thread that reads them, and its process. In a fork it is the first thread.
std::atomic<pid_t> reader = 0;
std::atomic<pid_t> readers_process = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler looks at them");

// Runs in a thread that does not block the signal. The reader does, so it waits there to be read.
void hand_on(int signal) {
  const int error = errno;
  const pid_t process = ::getpid();
  ::tgkill(process, process == readers_process ? reader.load() : process, signal);
  errno = error;
}

struct sigaction action_of(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return action;
}

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
  reader = ::gettid();
  readers_process = ::getpid();
  const auto set = [this](int signal, const struct sigaction& action) {
    ::sigaction(signal, &action, &actions_before_[signal]);
  };
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (::sigismember(&watched_, signal) == 1) {
      set(signal, action_of(hand_on));
    }
  }
  set(SIGPIPE, action_of(SIG_IGN));
  set(SIGXFSZ, action_of(SIG_IGN));
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
  for (const auto& [signal, action] : actions_before_) {
    ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void Signals::restore_in_child() const {
  for (const auto& [signal, action] : actions_before_) {
    ::sigaction(signal, &action, nullptr);
  }
  // We end workers by these signals, so workers must not inherit that a script in the background,
  // or a service, had them ignored or blocked. SIGHUP under nohup is not one of them.
  const auto standard = action_of(SIG_DFL);
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
