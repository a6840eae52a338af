// How one worker failed. Reports are made of these, and nodes send them to each other.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/process/stop_notice.h"

namespace lockstep::launch {

struct Failure {
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;
  std::string host;
  int pid = 0;
  int exit_code = 0;  // Meaningful if signal is 0.
  int signal = 0;
  // It obeyed (or was killed) after another one had failed, and had not told its reason before.
  bool stopped_by_us = false;

  // From its error file. The time is by the worker's clock, in seconds; 0 if it wrote none.
  std::string message;
  std::string traceback;
  std::int64_t timestamp = 0;

  std::string stderr_tail;  // The last lines it wrote.
  std::string log_path;     // Empty: not kept.
};

// No failure, then: it goes on when the same job is started again.
inline bool stopped_in_order(const Failure& failure) {
  return failure.signal == 0 && failure.exit_code == kStoppedInOrder;
}

inline bool stopped_unsaved(const Failure& failure) {
  return failure.signal == 0 && failure.exit_code == kStoppedUnsaved;
}

// By SIGUSR1 without a handler, or by one that ends at once, as the trainer's does for a second
// one.
inline bool ended_by_notice(const Failure& failure) {
  return failure.signal == SIGUSR1 || (failure.signal == 0 && failure.exit_code == 128 + SIGUSR1);
}

inline bool has_reason(const Failure& failure) {
  return !failure.message.empty() || !failure.traceback.empty();
}

inline bool ended_alike(const Failure& a, const Failure& b) {
  return a.exit_code == b.exit_code && a.signal == b.signal;
}

// Workers that agree on an exit code end in any order. If the first of `failures` tells no reason,
// moves one to the front that ended alike, on its own, and does.
inline void prefer_reason(std::vector<Failure>& failures) {
  if (failures.empty() || has_reason(failures.front())) {
    return;
  }
  const auto better = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
    return has_reason(failure) && !failure.stopped_by_us && ended_alike(failure, failures.front());
  });
  if (better != failures.end()) {
    std::rotate(failures.begin(), better, better + 1);
  }
}

// The code a shell would show: 128 + n for a signal.
inline int shell_code(const Failure& failure) {
  return failure.signal != 0 ? 128 + failure.signal : failure.exit_code;
}

}  // namespace lockstep::launch
