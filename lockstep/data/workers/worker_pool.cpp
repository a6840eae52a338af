#include "lockstep/data/workers/worker_pool.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Clock = Deadline::Clock;

constexpr std::chrono::hours kLongestTimeout{24 * 365};  // So that adding it does not overflow.

std::chrono::milliseconds milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

}  // namespace

struct WorkerPool::State {
  struct Slot {
    Result result;
    std::exception_ptr error;
    bool ready = false;
  };

  struct Worker {
    std::thread thread;
    std::int64_t number = -1;  // What it is making; -1: nothing.
    bool of_this_job = true;
    Clock::time_point since;
    bool initialized = false;       // Or it has tried.
    std::exception_ptr init_error;  // Then it makes nothing.
    bool ended = false;
  };

  explicit State(WorkerPoolOptions pool_options)
      : options(std::move(pool_options)),
        slots(static_cast<std::size_t>(options.prefetch)),
        workers(static_cast<std::size_t>(options.num_workers)),
        initializing(options.num_workers) {}

  const WorkerPoolOptions options;
  std::mutex mutex;
  std::condition_variable work;     // For workers: there is a number to take, or it is over.
  std::condition_variable changed;  // For the owner: a result is there, or a worker has ended.
  std::shared_ptr<const Job> job;
  std::uint64_t jobs = 0;  // So many were started: tells results of the present one.
  std::int64_t count = 0;
  std::int64_t claimed = 0;     // By workers.
  std::int64_t given = 0;       // By next().
  std::optional<Deadline> due;  // Of the batch that next() is at; one for all its parts.
  // Number n is in slot n % prefetch: those in use are from `given` to `given` + prefetch - 1.
  std::vector<Slot> slots;
  std::vector<Worker> workers;
  int initializing;  // So many are not initialized.
  bool closing = false;

  [[nodiscard]] bool has_number() const {
    return claimed < count && claimed < given + options.prefetch;
  }
  Slot& slot(std::int64_t number) {
    return slots[static_cast<std::size_t>(number % options.prefetch)];
  }

  Clock::time_point due_time() {
    due = due ? due : Deadline::in(options.timeout);
    return due->at();
  }

  // What they own goes where no lock is held.
  struct Dropped {
    std::shared_ptr<const Job> job;
    std::vector<Slot> slots;
  };
  Dropped replace(std::shared_ptr<const Job> next_job, std::int64_t next_count);
  void run(int id);
  // With the lock held.
  void initialize(int id, std::unique_lock<std::mutex>& lock);
  void work_on_next(int id, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool has_init_error() const;
  void rethrow_init_error() const;
  void wait_for_end(Worker& worker, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::string activity() const;
};

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

void WorkerPool::State::wait_for_end(Worker& worker, std::unique_lock<std::mutex>& lock) {
  const auto ended = [&] { return worker.ended; };
  if (options.timeout.count() == 0 || (worker.initialized && worker.number < 0)) {
    changed.wait(lock, ended);
  } else {
    changed.wait_until(lock, worker.since + options.timeout, ended);
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
  for (int id = 0; id < state_->options.num_workers; ++id) {
    State::Worker& worker = state_->workers[static_cast<std::size_t>(id)];
    try {
      worker.since = Clock::now();  // It may be waited for before it runs.
      worker.thread = std::thread([state = state_, id] { state->run(id); });
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

WorkerPool::~WorkerPool() {
  if (in_owner()) {
    stop_workers();
  }
  // In a fork the references of the threads are never given back, so the state stays as it is: its
  // lock may be held, and the threads cannot be joined.
}

void WorkerPool::stop_workers() {
  stop();
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->work.notify_all();
  for (State::Worker& worker : state_->workers) {
    if (!worker.thread.joinable()) {
      continue;
    }
    state_->wait_for_end(worker, lock);
    std::thread thread = std::move(worker.thread);
    if (!worker.ended) {
      // It sits in the caller's code, which nobody can interrupt. It touches the state and its job,
      // which it keeps, and ends when that code returns.
      thread.detach();
      continue;
    }
    lock.unlock();
    thread.join();
    lock.lock();
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
