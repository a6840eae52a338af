#include "lockstep/train/run/stop_request.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "lockstep/base/error.h"
#include "lockstep/base/process/stop_notice.h"

namespace lockstep::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
constexpr std::int64_t kEchoMilliseconds = std::chrono::milliseconds(kEchoLimit).count();

// The first signal, whether our parent sent it, and when: in one number, so that a second signal
// in another thread sees all of it.
constexpr std::int64_t kSignalBits = 0xff;
constexpr std::int64_t kFromParent = 0x100;
constexpr int kTimeShift = 9;

// A handler can reach nothing but globals. Lock-free, so that it may use them.
std::atomic<bool> in_use{false};
std::atomic<std::int64_t> first_signal{0};
std::atomic<bool> echo_came{false};
std::atomic<bool> ever_came{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

std::array<struct sigaction, kSignals.size()> before;
sigset_t mask_before;

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

void on_signal(int signal, siginfo_t* info, void* /*context*/) {
  ever_came = true;
  const bool from_parent = info->si_code <= 0 && info->si_pid == ::getppid();
  const std::int64_t time = now();
  std::int64_t first = 0;
  if (first_signal.compare_exchange_strong(
          first, time << kTimeShift | (from_parent ? kFromParent : 0) | signal)) {
    return;
  }
  if (signal == SIGHUP) {
    return;
  }
  const bool by_other_path = from_parent != ((first & kFromParent) != 0);
  const bool is_echo = signal == (first & kSignalBits) && by_other_path &&
                       time - (first >> kTimeShift) < kEchoMilliseconds &&
                       !echo_came.exchange(true);
  if (!is_echo) {
    ::_exit(128 + signal);
  }
}

void do_nothing(int /*signal*/) {}

void unblock(int signal) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

bool is_ignored(const struct sigaction& action) { return action.sa_handler == SIG_IGN; }

}  // namespace

StopRequest::StopRequest() {
  if (in_use.exchange(true)) {
    throw UsageError("StopRequest: this process has one already, expected one at a time");
  }
  first_signal = 0;
  echo_came = false;
  struct sigaction ours{};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigfillset(&ours.sa_mask);  // One handler does not interrupt another.
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    if (!is_ignored(before[i])) {
      ::sigaction(kSignals[i], &ours, nullptr);
    }
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  for (const int signal : kSignals) {
    unblock(signal);  // One by one: those that waited come in this order.
  }
}

StopRequest::~StopRequest() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (is_ignored(before[i])) {
      continue;
    }
    // Threads that were started meanwhile do not block the signal, and its default action would end
    // the process. So it gets a handler that does nothing; SIG_IGN would be kept by the next
    // StopRequest.
    if (before[i].sa_handler == SIG_DFL && ::sigismember(&mask_before, kSignals[i]) == 1) {
      before[i].sa_handler = do_nothing;
      before[i].sa_flags = SA_RESTART;
    }
    ::sigaction(kSignals[i], &before[i], nullptr);
  }
  first_signal = 0;
  in_use = false;
}

int StopRequest::signal() { return static_cast<int>(first_signal & kSignalBits); }

bool StopRequest::was_ever_requested() { return ever_came; }

int StopRequest::exit_code(int signal) {
  return signal == 0 ? 0 : signal == SIGUSR1 ? kStoppedInOrder : 128 + signal;
}

}  // namespace lockstep::train
