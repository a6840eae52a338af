#include "lockstep/base/work_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/keep_forever.h"

namespace lockstep {
namespace {

using Clock = Deadline::Clock;

// A job that nobody waited for within this time is run by the queue's thread.
constexpr std::chrono::milliseconds kPatience{1};
// The same after this many jobs in a row were run by the threads that waited for them, as in
// training: each look of the queue's thread takes a core from the computation.
constexpr std::chrono::milliseconds kLongPatience{10};
constexpr int kCalm = 16;
// After so many looks without a job the thread sleeps until it is woken, which costs the next
// caller some microseconds.
constexpr int kDoze = 3;

}  // namespace

struct WorkQueue::State {
  std::mutex mutex;
  std::condition_variable changed;  // A job is done, or nobody runs one any more.
  std::condition_variable wanted;   // For the queue's thread.
  std::deque<JobPointer> jobs;      // The front may be running.
  bool running = false;
  int taken = 0;         // Jobs in a row that waiting threads ran.
  bool at_once = false;  // The queue's thread is to run all there is.
  bool awake = false;    // The thread will look again by itself soon.
  bool came = false;     // A job, since the thread looked.
  bool stop = false;
};

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() {
  if (!thread_.joinable()) {
    return;
  }
  if (!fork_guard_.in_owner()) {
    keep_forever(std::move(thread_));
    keep_forever(state_);
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wanted.notify_all();
  if (std::this_thread::get_id() == thread_.get_id()) {
    // In a when_done() callback that dropped the last pointer to this: nobody can join itself. The
    // thread ends when that callback returns, and touches only the state, which it keeps.
    thread_.detach();
  } else {
    thread_.join();
  }
  std::unique_lock lock(state_->mutex);
  while (!state_->jobs.empty()) {
    run_front(*state_, lock);
  }
}

void WorkQueue::require_owner() const {
  if (!fork_guard_.in_owner()) {
    throw UsageError(
        "this work belongs to the process that started it, and this one is a fork of it; wait for "
        "the work there, or before fork()");
  }
}

WorkQueue::JobPointer WorkQueue::start(std::function<void()> run, When when) {
  require_owner();
  auto job = std::make_shared<Job>();
  job->run_ = std::move(run);
  bool wake_up = false;
  {
    const std::lock_guard lock(state_->mutex);
    start_thread();
    state_->jobs.push_back(job);
    state_->came = true;
    if (when == When::kAtOnce) {
      state_->at_once = true;
      wake_up = true;
    } else {
      wake_up = !std::exchange(state_->awake, true);
    }
  }
  if (wake_up) {
    state_->wanted.notify_one();
  }
  return job;
}

void WorkQueue::wait(Job& job) {
  if (!job.is_done()) {
    require_owner();
    std::unique_lock lock(state_->mutex);
    while (!job.is_done()) {
      if (state_->running) {
        state_->changed.wait(lock);
      } else {
        state_->taken = std::min(state_->taken + 1, kCalm);
        run_front(*state_, lock);
      }
    }
  }
  if (job.error_) {
    std::rethrow_exception(job.error_);
  }
}

bool WorkQueue::wait_until(Job& job, Deadline deadline) {
  require_owner();
  std::unique_lock lock(state_->mutex);
  state_->at_once = true;
  state_->wanted.notify_one();
  if (!state_->changed.wait_until(lock, deadline.at(), [&] { return job.is_done(); })) {
    return false;
  }
  if (job.error_) {
    std::rethrow_exception(job.error_);
  }
  return true;
}

void WorkQueue::when_done(Job& job, std::function<void(std::exception_ptr)> tell) {
  require_owner();
  std::unique_lock lock(state_->mutex);
  if (!job.is_done()) {
    job.tell_ = std::move(tell);
    state_->at_once = true;
    state_->wanted.notify_one();
    return;
  }
  lock.unlock();
  tell(job.error_);
}

// The lock is held on entry and on return.
void WorkQueue::run_front(State& state, std::unique_lock<std::mutex>& lock) {
  const JobPointer job = state.jobs.front();
  state.running = true;
  lock.unlock();
  std::exception_ptr error;
  const auto start = Clock::now();
  try {
    job->run_();
  } catch (...) {
    error = std::current_exception();
  }
  job->duration_ = Clock::now() - start;
  job->run_ = nullptr;  // Lets go of the caller's tensors.
  lock.lock();
  job->error_ = error;
  job->done_.store(true, std::memory_order_release);
  auto tell = std::exchange(job->tell_, nullptr);
  state.jobs.pop_front();
  state.running = false;
  state.changed.notify_all();
  if (tell) {
    lock.unlock();
    tell(error);
    tell = nullptr;  // What it owns goes while the lock is free.
    lock.lock();
  }
}

void WorkQueue::start_thread() {
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] { tend(*state); });
  }
}

void WorkQueue::tend(State& state) {
  std::unique_lock lock(state.mutex);
  int idle = 0;  // Looks since there was a job.
  while (!state.stop) {
    if (state.at_once && !state.running && !state.jobs.empty()) {
      state.taken = 0;
      run_front(state, lock);
      idle = 0;
      continue;
    }
    state.at_once = state.at_once && !state.jobs.empty();
    idle = std::exchange(state.came, false) || !state.jobs.empty() ? 0 : idle + 1;
    state.awake = idle < kDoze;
    if (!state.awake) {
      state.wanted.wait(lock);
      idle = 0;
      continue;
    }
    const JobPointer seen = state.jobs.empty() ? nullptr : state.jobs.front();
    state.wanted.wait_for(lock, state.taken < kCalm ? kPatience : kLongPatience);
    // Nobody took it in the meantime, so it is up to this thread, with all that came after it.
    if (seen && !state.running && !state.jobs.empty() && state.jobs.front() == seen) {
      state.at_once = true;
    }
  }
}

}  // namespace lockstep
