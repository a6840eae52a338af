// Which other processes have ended, found out once for all groups of this process.
//
// There is one pidfd for each watched process, however many groups it is in, and one epoll over all
// of them, so look() is one system call. A pidfd becomes readable when its process has ended. A
// fork of that process cannot hide its end, nor can another process that got the same pid. Without
// pidfds (an old kernel, a container that forbids them, no descriptor to spare) the process is
// looked up in /proc.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/base/process/state.h"

namespace lockstep::shm {

// Thread-safe.
class Liveness {
 public:
  class Process {
   public:
    // As of the last look(): the signal that killed it, 0 if it ended otherwise or the signal is
    // not known, nothing if it has not ended.
    [[nodiscard]] std::optional<int> ended_by() const {
      const int signal = ended_by_.load();
      return signal < 0 ? std::nullopt : std::optional(signal);
    }

   private:
    friend class Liveness;
    explicit Process(const ProcessId& id) : id_(id) {}

    ProcessId id_;
    UniqueFd pidfd_;  // None once it has ended, or where there are none.
    std::atomic<int> ended_by_{-1};
  };
  using ProcessPointer = std::shared_ptr<Process>;

  struct Options {
    std::size_t most_pidfds;
  };
  // Uses at most a quarter of this process's descriptor limit for pidfds.
  Liveness();
  explicit Liveness(const Options& options);
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // The instance that all groups of this process share. It is never destroyed. A fork gets its own.
  static Liveness& of_this_process();

  // Watches the process until the last pointer is gone. The Liveness must outlive that pointer.
  ProcessPointer watch(const ProcessId& id);
  // Finds out who has ended. Does not block.
  void look();

  // How many processes are watched by a pidfd.
  [[nodiscard]] std::size_t pidfds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void open(Process& process);
  void close(Process& process);
  void forget(Process* process);
  void look_up_in_proc();

  ForkGuard fork_guard_;  // A fork shares the epoll with its parent, and must leave it alone.
  const std::size_t most_pidfds_;
  mutable std::mutex mutex_;
  UniqueFd epoll_;
  std::map<int, Process*> by_pidfd_;
  std::vector<Process*> without_pidfd_;  // They have not ended.
  Clock::time_point next_look_up_;
  std::map<std::pair<pid_t, std::uint64_t>, std::weak_ptr<Process>> known_;
};

}  // namespace lockstep::shm
