// Ctrl-C and its relatives: the first asks a run to stop in order, the second ends it.
#pragma once

namespace lockstep::train {

// While it lives, the first SIGINT, SIGTERM, SIGUSR1 or SIGHUP sets a flag, which the training loop
// looks at after each step. The second one ends the process at once, with 128 + its number. A
// second SIGHUP does not: a terminal that closes sends it more than once. The same signal from the
// parent and from elsewhere within five seconds counts once: a scheduler signals all processes of a
// job, and the launcher passes its own on. What was ignored before stays ignored (nohup). What was
// blocked in this thread is not, until the end: one that waited (base/process/stop_notice.h) comes
// when the object is made.
//
// One at a time in a process, because signals have no owner.
class StopRequest {
 public:
  // Throws UsageError if there is one.
  StopRequest();
  // The handlers from before are back. A signal that was blocked in this thread and had none does
  // nothing from now on: threads that were started meanwhile do not block it.
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Threads may ask.
  [[nodiscard]] static bool is_requested() { return signal() != 0; }
  // The first signal; 0 if none came.
  [[nodiscard]] static int signal();
  // Whether a signal came while there was one, of this or of an earlier object.
  [[nodiscard]] static bool was_ever_requested();
  // As that of a process stopped by `signal`: 130 (SIGINT), 143 (SIGTERM), 129 (SIGHUP), 75
  // (SIGUSR1); 0 for 0. Ranks that agree on a stop need the code of a signal that another one got.
  [[nodiscard]] static int exit_code(int signal);
};

}  // namespace lockstep::train
