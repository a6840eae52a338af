// Signals as events: blocked in the thread that reads them from a descriptor, unblocked in
// children.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::launch {

// While it lives, SIGCHLD, SIGUSR1, SIGUSR2 and `handled` are blocked, and SIGPIPE and SIGXFSZ (a
// log at the limit of `ulimit -f`) are ignored in this process. A hang-up that was ignored when we
// started (nohup) stays ignored, by us and by the workers.
//
// The thread that makes it is the one that reads. Other threads, which a library may have started
// before, have nothing blocked: a signal that the kernel gives to one of them is handed on.
class Signals {
 public:
  explicit Signals(const std::vector<int>& handled);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Ready to read when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that has arrived; nothing if there is none. In the thread that made this, or in
  // a child that it forked.
  [[nodiscard]] std::optional<int> next() const;
  // Whether this signal ends the job (`handled`), or is only passed to the workers.
  [[nodiscard]] bool ends_job(int signal) const { return ::sigismember(&handled_, signal) == 1; }
  // Whether workers start with this signal blocked, because whoever started us had blocked it.
  [[nodiscard]] bool workers_hold_back(int signal) const {
    return !ends_job(signal) && ::sigismember(&before_, signal) == 1;
  }
  // To be called in a child before it executes another program. Undoes what this object did, and
  // gives the signals that end workers their default action.
  void restore_in_child() const;

 private:
  sigset_t before_{};
  sigset_t handled_{};
  sigset_t watched_{};
  std::map<int, struct sigaction> actions_before_;
  UniqueFd fd_;
};

// A signal to a whole control group reaches the supervisor and the agent, so the agent gets it
// twice: directly and from the supervisor. It counts once.
enum class SignalPath { kOwn, kSupervisor };

class EchoFilter {
 public:
  // Whether this is a signal that came by the other path a moment ago.
  bool is_echo(int signal, SignalPath path,
               Deadline::Clock::time_point now = Deadline::Clock::now());

 private:
  struct Seen {
    SignalPath path = SignalPath::kOwn;
    Deadline::Clock::time_point at;
  };
  std::map<int, Seen> unmatched_;  // By signal.
};

}  // namespace lockstep::launch
