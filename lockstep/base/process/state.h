// What another process is doing, as the kernel tells it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace lockstep {

// A pid alone may be given to another process later; the start time tells them apart.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // In the kernel's ticks since boot; 0 if unknown.
};

enum class Life {
  kRunning,
  kStopped,  // By SIGSTOP, SIGTSTP or a debugger: it will go on.
  kEnded,    // Gone, or a zombie that nobody has reaped yet.
};

struct ProcessState {
  Life life = Life::kRunning;
  int signal = 0;  // What killed it, where the kernel still knows; else 0.
};

// What the kernel lists of a process in /proc/PID/stat, by proc(5)'s names.
struct ProcessStat {
  bool exists = true;
  char state = '?';
  pid_t ppid = 0;
  long num_threads = 0;
  std::uint64_t start_time = 0;
  int exit_code = 0;
};
// Nothing if it cannot be read: no descriptor left, /proc not mounted.
std::optional<ProcessStat> read_stat(pid_t pid);

// Takes the start time of a process of this pid namespace.
ProcessId identify(pid_t pid);

// Does not block, and takes some microseconds. If nothing can be found out about a process, it
// counts as running.
ProcessState state_of(const ProcessId& process);

}  // namespace lockstep
