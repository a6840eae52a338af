// How a WorkerPool ends: it waits for its threads, but not for ever.
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/keep_forever.h"
#include "lockstep/data/workers/worker_pool_state.h"

namespace lockstep::data {

void WorkerPool::State::wait_for_end(Worker& worker, std::unique_lock<std::mutex>& lock) {
  const auto ended = [&] { return worker.ended; };
  if (options.timeout.count() == 0 || (worker.initialized && worker.number < 0)) {
    changed.wait(lock, ended);
  } else {
    changed.wait_until(lock, worker.since + options.timeout, ended);
  }
}

WorkerPool::~WorkerPool() {
  if (in_owner()) {
    stop_workers();
  } else {
    // In a fork: its lock may be held, and the threads cannot be joined.
    keep_forever(std::move(state_));
  }
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

}  // namespace lockstep::data
