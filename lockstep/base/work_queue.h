// Jobs that are run one after the other, by whoever needs them first.
//
// The ranks of a group start their collectives in the same order but may wait for them in any. So
// they are run in the order in which they were started: a thread that waits for one runs all that
// were started before it, unless another thread is doing so already. The queue also has a thread of
// its own. It runs jobs that nobody has waited for in a while, jobs with a when_done() callback,
// and jobs that were started to run at once. While it is in a callback another one takes its place,
// so that callbacks may wait for jobs.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/fork_guard.h"

namespace lockstep {

// Thread-safe. In a fork of the process that made it, calls that need the queue throw UsageError:
// its thread does not exist there, and its lock may be held for ever. Jobs that are done may still
// be looked at.
class WorkQueue {
 public:
  class Job {
   public:
    // Never blocks; also true for a job that failed.
    [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
    // What it threw; null before it is done.
    [[nodiscard]] std::exception_ptr error() const { return is_done() ? error_ : nullptr; }
    // How long it ran; 0 before it is done.
    [[nodiscard]] std::chrono::duration<float, std::milli> duration() const {
      return is_done() ? duration_ : decltype(duration_)::zero();
    }

   private:
    friend class WorkQueue;
    std::function<void()> run_;
    std::function<void(std::exception_ptr)> tell_;
    std::exception_ptr error_;
    std::chrono::duration<float, std::milli> duration_{0};
    std::atomic<bool> done_{false};
  };
  using JobPointer = std::shared_ptr<Job>;

  WorkQueue();
  // Runs the jobs that are left, so that nobody waits for a future in vain.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  enum class When {
    kWhenWaitedFor,  // Or, if nobody does for a millisecond or two, by the queue's thread.
    kAtOnce,         // By the queue's thread, in the background.
  };
  JobPointer start(std::function<void()> run, When when = When::kWhenWaitedFor);

  // Throws UsageError in a fork.
  void require_owner() const;

  // Runs jobs in this thread until this one is done; throws what it threw.
  void wait(Job& job);
  // Leaves the job to the queue's thread. Returns false if it is not done by the deadline.
  bool wait_until(Job& job, Deadline deadline);
  // Calls `tell` once: in the thread that ran the job when it is done, or at once if it already is.
  void when_done(Job& job, std::function<void(std::exception_ptr)> tell);

 private:
  struct State;  // Shared with the thread: a when_done() callback may end this.

  // Returns the callback of the job that it ran, if there is one.
  static std::function<void()> run_front(State& state, std::unique_lock<std::mutex>& lock);
  static void call(std::function<void()> callback, std::unique_lock<std::mutex>& lock);
  static void call_tender(const std::shared_ptr<State>& state);
  static void tend(const std::shared_ptr<State>& shared, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<State> state_;
  ForkGuard fork_guard_;
};

}  // namespace lockstep
