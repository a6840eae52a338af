// Threads that make the results of a job ahead of their use and hand them over in order.
//
// A job is a function of a number: 0, 1, 2, ... Workers take the numbers in this order, as many as
// may be made ahead, and next() gives the results in the same order whoever was faster. The threads
// stay from job to job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/base/process/fork_guard.h"

namespace lockstep::data {

struct WorkerPoolOptions {
  int num_workers = 1;
  // Numbers that workers may have taken and next() has not given yet: what is kept in memory.
  std::int64_t prefetch = 2;
  // How many numbers make one batch together: messages name batches.
  std::int64_t parts = 1;
  // How long next() waits for a batch, all its parts together, and how long the end of the pool
  // waits for a worker since it took its number; 0: for ever.
  std::chrono::milliseconds timeout{0};
  // Called once in each worker, with its number, before any result is given. What it throws is
  // thrown by every next().
  std::function<void(int worker)> worker_init_fn;
};

// One thread at a time calls its functions. In a fork of the process that made it there are no
// workers: start() and next() throw UsageError there, and its end does nothing.
class WorkerPool {
 public:
  using Result = std::shared_ptr<void>;
  using Job = std::function<Result(std::int64_t number)>;  // Called by several threads at once.

  // Starts the threads. Throws UsageError if there is no worker or nothing may be made ahead, and
  // IoError if the system gives no thread.
  explicit WorkerPool(WorkerPoolOptions options);
  // Waits for what workers are doing, then joins them. One that has been at its number for longer
  // than the timeout is left behind, with all that it uses.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Begins a job with the numbers 0 to count - 1. What is left of the former one is dropped; a
  // worker that is still at it takes part once it is done. Does not block.
  void start(Job job, std::int64_t count);
  // Drops what is left of the job. Does not block.
  void stop();

  // The result of the next number; null behind the last one. Blocks until it is there. Throws what
  // the job threw for this number; the next call then gives the next number. Throws IoError, saying
  // what each worker is doing, if it takes longer than the timeout; the number stays the next one.
  // If workers could not be initialized, waits until all have tried and throws the error of the
  // lowest number, whoever was faster.
  Result next();
  // How many numbers next() is through with, of this job.
  [[nodiscard]] std::int64_t given() const;

  [[nodiscard]] int num_workers() const;
  // Whether worker_init_fn has thrown in a worker: next() gives nothing then.
  [[nodiscard]] bool has_init_error() const;

  [[nodiscard]] bool in_owner() const { return fork_guard_.in_owner(); }

 private:
  struct State;  // Shared with the threads: one that is left behind still has it.

  void require_owner() const;
  void stop_workers();

  std::shared_ptr<State> state_;
  ForkGuard fork_guard_;
};

}  // namespace lockstep::data
