// What a WorkerPool shares with its threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/data/workers/worker_pool.h"

namespace lockstep::data {

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
    Deadline::Clock::time_point since;
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
  std::uint64_t jobs = 0;  // How many were started: tells results of the present one.
  std::int64_t count = 0;
  std::int64_t claimed = 0;     // By workers.
  std::int64_t given = 0;       // By next().
  std::optional<Deadline> due;  // For the batch that next() is at; one for all its parts.
  // Number n is in slot n % prefetch: those in use are from `given` to `given` + prefetch - 1.
  std::vector<Slot> slots;
  std::vector<Worker> workers;
  int initializing;  // How many are not initialized.
  bool closing = false;

  [[nodiscard]] bool has_number() const {
    return claimed < count && claimed < given + options.prefetch;
  }
  Slot& slot(std::int64_t number) {
    return slots[static_cast<std::size_t>(number % options.prefetch)];
  }

  Deadline::Clock::time_point due_time() {
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

}  // namespace lockstep::data
