// What the supervisor does while the agent lives: waits for its end, and passes signals on.
#pragma once

#include <sys/types.h>

#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/node/signals.h"

namespace lockstep::launch {

// After a second signal it waits for the agent no longer than kAgentPatience, or kTidyPatience once
// the agent has announced the exit code over the link.
class AgentWatch {
 public:
  // `signals` lives longer.
  AgentWatch(pid_t agent, UniqueFd link, const Signals& signals)
      : agent_(agent), link_(std::move(link)), signals_(signals) {}

  // The agent's status; nothing if it did not end in time.
  std::optional<int> wait();

  // The exit code that the agent has announced, also if it did not live to return it.
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }

 private:
  void on_signal(int signal);
  void read_exit_code();

  pid_t agent_;
  UniqueFd link_;
  const Signals& signals_;
  int asked_to_end_ = 0;
  std::optional<Deadline> deadline_;
  std::optional<int> exit_code_;
  std::optional<int> status_;
};

}  // namespace lockstep::launch
