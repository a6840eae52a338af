#include "lockstep/data/workers/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/data/workers/spread_threads.h"
#include "lockstep/data/workers/worker_pool_state.h"

namespace lockstep::data {
namespace {

using Clock = Deadline::Clock;

constexpr std::chrono::hours kLongestTimeout{24 * 365};  // So that adding it does not overflow.

std::chrono::milliseconds milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

}  // namespace

WorkerPool::State::Dropped WorkerPool::State::replace(std::shared_ptr<const Job> next_job,
                                                      std::int64_t next_count) {
  std::vector<Slot> empty(slots.size());
  const std::lock_guard lock(mutex);
  ++jobs;
  count = next_count;
  claimed = 0;
  given = 0;
  due.reset();
  for (Worker& worker : workers) {
    worker.of_this_job = false;
  }
  return {std::exchange(job, std::move(next_job)), std::exchange(slots, std::move(empty))};
}

void WorkerPool::State::run(int id) {
  std::unique_lock lock(mutex);
  Worker& worker = workers[static_cast<std::size_t>(id)];
  initialize(id, lock);
  while (!worker.init_error) {
    work.wait(lock, [this] { return closing || has_number(); });
    if (closing) {
      break;
    }
    work_on_next(id, lock);
  }
  worker.ended = true;
  changed.notify_all();
}

void WorkerPool::State::initialize(int id, std::unique_lock<std::mutex>& lock) {
  Worker& worker = workers[static_cast<std::size_t>(id)];
  worker.since = Clock::now();
  std::exception_ptr error;
  if (options.worker_init_fn && !closing) {
    lock.unlock();
    try {
      options.worker_init_fn(id);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
  }
  worker.init_error = error;
  worker.initialized = true;
  --initializing;
  changed.notify_all();
}

bool WorkerPool::State::has_init_error() const {
  return std::ranges::any_of(workers,
                             [](const Worker& worker) { return worker.init_error != nullptr; });
}

void WorkerPool::State::rethrow_init_error() const {
  for (const Worker& worker : workers) {
    if (worker.init_error) {
      std::rethrow_exception(worker.init_error);
    }
  }
}

void WorkerPool::State::work_on_next(int id, std::unique_lock<std::mutex>& lock) {
  Worker& worker = workers[static_cast<std::size_t>(id)];
  const std::int64_t number = claimed++;
  const std::uint64_t of_job = jobs;
  std::shared_ptr<const Job> present = job;
  worker.number = number;
  worker.of_this_job = true;
  worker.since = Clock::now();
  lock.unlock();

  Slot made{.ready = true};
  try {
    made.result = (*present)(number);
  } catch (...) {
    made.error = std::current_exception();
  }
  present.reset();

  lock.lock();
  worker.number = -1;
  if (of_job == jobs) {
    slot(number) = std::move(made);
    changed.notify_all();
  } else {
    lock.unlock();
    made = {};
    lock.lock();
  }
}

// "worker 0 has been at batch 7 for 30 s, worker 1 waits for work".
std::string WorkerPool::State::activity() const {
  std::string text;
  for (std::size_t id = 0; id < workers.size(); ++id) {
    const Worker& worker = workers[id];
    text += (id == 0 ? "worker " : ", worker ") + std::to_string(id);
    if (!worker.initialized) {
      text += " is still being initialized (worker_init_fn)";
    } else if (worker.number < 0) {
      text += " waits for work";
    } else {
      text += " has been at batch " + std::to_string(worker.number / options.parts) +
              (worker.of_this_job ? "" : " of an earlier epoch") + " for " +
              to_text(milliseconds_since(worker.since));
    }
  }
  return text;
}

WorkerPool::WorkerPool(WorkerPoolOptions options) {
  if (options.num_workers < 1 || options.prefetch < 1 || options.parts < 1 ||
      options.timeout.count() < 0) {
    throw UsageError("WorkerPool: " + std::to_string(options.num_workers) + " workers, " +
                     std::to_string(options.prefetch) + " results ahead, " +
                     std::to_string(options.parts) + " parts and a timeout of " +
                     std::to_string(options.timeout.count()) +
                     " ms, expected at least 1, 1, 1 and 0");
  }
  options.timeout = std::min<std::chrono::milliseconds>(options.timeout, kLongestTimeout);
  state_ = std::make_shared<State>(std::move(options));
  const int core = present_core();
  for (int id = 0; id < state_->options.num_workers; ++id) {
    State::Worker& worker = state_->workers[static_cast<std::size_t>(id)];
    try {
      worker.since = Clock::now();  // It may be waited for before it runs.
      worker.thread = std::thread([state = state_, id, core] {
        spread_thread(id, core);
        state->run(id);
      });
    } catch (const std::system_error& error) {
      stop_workers();
      throw IoError("DataLoader: worker " + std::to_string(id) + " of " +
                    std::to_string(state_->options.num_workers) +
                    " cannot be started: " + error.what() +
                    "; lower num_workers (--workers), or raise the limits of threads "
                    "and memory (ulimit -u, ulimit -v)");
    }
  }
}

void WorkerPool::start(Job job, std::int64_t count) {
  require_owner();
  const auto dropped = state_->replace(std::make_shared<const Job>(std::move(job)),
                                       std::max<std::int64_t>(count, 0));
  state_->work.notify_all();
}

void WorkerPool::stop() {
  if (in_owner()) {
    const auto dropped = state_->replace(nullptr, 0);
  }
}

WorkerPool::Result WorkerPool::next() {
  require_owner();
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.given == state.count) {
    return nullptr;
  }
  const auto ready = [&] {
    return state.initializing == 0 && (state.slot(state.given).ready || state.has_init_error());
  };
  if (state.options.timeout.count() == 0) {
    state.changed.wait(lock, ready);
  } else if (!state.changed.wait_until(lock, state.due_time(), ready)) {
    state.due.reset();  // The next call waits as long again.
    throw IoError("DataLoader: batch " + std::to_string(state.given / state.options.parts) +
                  " is not there after " + to_text(state.options.timeout) + ": " +
                  state.activity() + "; see what the data set waits for, or raise the timeout");
  }
  state.rethrow_init_error();
  State::Slot slot = std::exchange(state.slot(state.given), {});
  if (++state.given % state.options.parts == 0) {
    state.due.reset();
  }
  lock.unlock();
  state.work.notify_one();
  if (slot.error) {
    std::rethrow_exception(slot.error);
  }
  return std::move(slot.result);
}

// Workers only read it, so its writer's thread needs no lock.
std::int64_t WorkerPool::given() const { return state_->given; }

int WorkerPool::num_workers() const { return state_->options.num_workers; }

bool WorkerPool::has_init_error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_init_error();
}

void WorkerPool::require_owner() const {
  if (!in_owner()) {
    throw UsageError(
        "DataLoader: its workers belong to the process that started them, and this one is a fork "
        "of it; begin a new epoch here");
  }
}

}  // namespace lockstep::data
