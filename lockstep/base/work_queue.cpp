#include "lockstep/base/work_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

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
  std::condition_variable wanted;   // For the thread that tends the queue.
  std::condition_variable vacant;   // For its deputies.
  std::deque<JobPointer> jobs;      // The front may be running.
  bool running = false;
  int taken = 0;         // Jobs in a row that waiting threads ran.
  bool at_once = false;  // The queue's thread is to run all there is.
  bool awake = false;    // The thread will look again by itself soon.
  bool came = false;     // A job, since the thread looked.
  bool stop = false;
  // While a thread of the queue's own is in a callback, another one tends the queue: the callback
  // may wait for jobs.
  std::vector<std::thread> threads;
  bool tended = false;
  int deputies = 0;  // Threads that wait for their turn to tend it.
};

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() {
  if (!fork_guard_.in_owner()) {
    keep_forever(state_);  // With its threads.
    return;
  }
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  auto threads = std::exchange(state_->threads, {});
  lock.unlock();
  state_->wanted.notify_all();
  state_->vacant.notify_all();
  for (auto& thread : threads) {
    if (std::this_thread::get_id() == thread.get_id()) {
      // In a when_done() callback that dropped the last pointer to this: nobody can join itself.
      // The thread ends when that callback returns, and touches only the state, which it keeps.
      thread.detach();
    } else {
      thread.join();
    }
  }
  lock.lock();
  while (!state_->jobs.empty()) {
    call(run_front(*state_, lock), lock);
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
    state_->jobs.push_back(job);
    state_->came = true;
    state_->at_once = state_->at_once || when == When::kAtOnce;
    if (!state_->tended) {
      call_tender(state_);
    } else {
      wake_up = !std::exchange(state_->awake, true) || when == When::kAtOnce;
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
        call(run_front(*state_, lock), lock);
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
  call_tender(state_);
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
    call_tender(state_);
    return;
  }
  lock.unlock();
  tell(job.error_);
}

// The lock is held on entry and on return.
std::function<void()> WorkQueue::run_front(State& state, std::unique_lock<std::mutex>& lock) {
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
  if (!tell) {
    return nullptr;
  }
  return [tell = std::move(tell), error] { tell(error); };
}

void WorkQueue::call(std::function<void()> callback, std::unique_lock<std::mutex>& lock) {
  if (callback) {
    lock.unlock();
    callback();
    callback = nullptr;  // What it owns goes while the lock is free.
    lock.lock();
  }
}

void WorkQueue::call_tender(const std::shared_ptr<State>& state) {
  if (state->tended) {
    state->wanted.notify_one();
  } else if (state->deputies > 0) {
    state->vacant.notify_one();
  } else if (!state->stop) {
    state->tended = true;  // By the thread that comes.
    state->threads.emplace_back([state] {
      std::unique_lock lock(state->mutex);
      while (!state->stop) {
        tend(state, lock);
        ++state->deputies;
        state->vacant.wait(lock, [&] { return !state->tended || state->stop; });
        --state->deputies;
        state->tended = true;
      }
    });
  }
}

// Until the queue ends, or another thread has taken over.
void WorkQueue::tend(const std::shared_ptr<State>& shared, std::unique_lock<std::mutex>& lock) {
  State& state = *shared;
  int idle = 0;  // Looks since there was a job.
  while (!state.stop) {
    if (state.at_once && !state.running && !state.jobs.empty()) {
      state.taken = 0;
      idle = 0;
      if (auto callback = run_front(state, lock)) {
        state.tended = false;
        state.awake = false;
        if (!state.jobs.empty()) {
          call_tender(shared);
        }
        call(std::move(callback), lock);
        if (state.tended) {
          return;
        }
        state.tended = true;
      }
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
