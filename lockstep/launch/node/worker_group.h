// The workers of one attempt on this node: their processes, their output, how they ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/context.h"
#include "lockstep/launch/event_loop.h"
#include "lockstep/launch/node/capture.h"
#include "lockstep/launch/node/console.h"
#include "lockstep/launch/protocol/failure.h"
#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {

struct Consoles {
  Console out{1};
  Console err{2};
};

struct ChildExit {
  pid_t pid = 0;
  int status = 0;  // As waitpid() gives it.
};

class WorkerGroup {
 public:
  // Everything referred to must outlive the group.
  WorkerGroup(const Context& context, EventLoop& loop, Consoles& consoles, const Start& start);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Throws IoError naming the local rank that could not be started; those before it run.
  void start();

  // Takes children that ended together, and ignores those that are no workers. A failure after the
  // first signal() counts as caused by us, unless the worker wrote its error file before.
  void on_exits(const std::vector<ChildExit>& exits);
  // Passes a signal on to all workers that still run, and to their process groups.
  void signal(int number);
  // Passes on a signal that asks nobody to stop. Only the workers get it, because their children
  // may not expect it.
  void pass_on(int number);
  // Reads what the workers wrote before they ended, until the deadline.
  void drain(Deadline deadline);
  // Pauses reading while the console is full; call it before each wait.
  void update_watches();

  [[nodiscard]] int running() const;
  [[nodiscard]] std::string running_ranks() const;
  // The first failure, without texts; null if there is none.
  [[nodiscard]] const Failure* first_failure() const {
    return failures_.empty() ? nullptr : &failures_.front();
  }
  // In order of time, as far as we can tell; complete with texts after drain().
  [[nodiscard]] std::vector<Failure> failures() const;
  // "No space left on device for the log '...'" if a worker has a full one; else empty.
  [[nodiscard]] std::string full_log() const;

 private:
  struct Worker;

  void start_worker(Worker& worker);
  [[nodiscard]] Environment environment_of(const Worker& worker) const;
  void watch(std::optional<Capture>& capture);
  void read(std::optional<Capture>& capture);
  void record(Worker& worker, int status);
  // Where a late log goes; empty: not known yet; nothing: it cannot be kept, which is said once.
  std::optional<std::string> find_log(int local_rank, std::string WorkerFiles::* stream);
  [[nodiscard]] std::string stderr_tail(const Worker& worker) const;
  [[nodiscard]] std::string full_log_of(const Worker& worker) const;

  const Context& context_;
  EventLoop& loop_;
  Consoles& consoles_;
  Start start_;
  // The interface that leads to the master. Python's Gloo looks up the host's own name instead. On
  // many machines that is loopback, and then no node can reach another.
  std::optional<std::string> interface_;
  std::vector<Worker> workers_;
  std::vector<Failure> failures_;
  std::optional<std::chrono::nanoseconds> told_to_stop_;  // By coarse_now(), the first time.
  bool paused_ = false;
  bool said_that_logs_are_lost_ = false;
};

}  // namespace lockstep::launch
