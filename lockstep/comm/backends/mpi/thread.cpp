#include "lockstep/comm/backends/mpi/thread.h"

#include <algorithm>
#include <utility>
namespace lockstep::comm {

void Backoff::pause() {
  constexpr std::chrono::microseconds kLongest{100};
  if (yields_-- > 0) {
    std::this_thread::yield();
    return;
  }
  yields_ = 0;
  std::this_thread::sleep_for(sleep_);
  sleep_ = std::min(sleep_ * 2, kLongest);
}

PeerError late(Deadline deadline) {
  return PeerError("timed out after " + to_text(deadline.total()) +
                       ": a rank is late or left; see the logs of the others, or raise the timeout",
                   PeerError::Cause::kLate);
}

MpiThread::Rest::Rest(MpiThread& thread) : thread_(thread) {
  const std::lock_guard lock(thread_.mutex_);
  ++thread_.waiting_;
}

MpiThread::Rest::~Rest() {
  const std::lock_guard lock(thread_.mutex_);
  if (--thread_.waiting_ == 0 && thread_.operations_ > 0) {
    thread_.wake_.notify_all();
  }
}

MpiThread::MpiThread(std::timed_mutex& calls, std::function<void()> poll)
    : calls_(calls), poll_(std::move(poll)), thread_([this] { run(); }) {}

void MpiThread::watch(std::size_t operations) {
  const std::lock_guard lock(mutex_);
  operations_ = operations;
  if (operations_ > 0 && waiting_ == 0) {
    wake_.notify_all();
  }
}

void MpiThread::stop() {
  bool free = false;
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    wake_.notify_all();
    free = wake_.wait_for(lock, std::chrono::seconds(1), [&] { return !in_task_; });
  }
  if (free) {
    thread_.join();
  } else {
    // It sits in a call of MPI, which nobody can interrupt. All that it touches lives as long as
    // the process, which is about to end: MpiProcess is never destroyed.
    thread_.detach();
  }
}

void MpiThread::run_alone(const std::string& what, std::function<void()> task, Deadline deadline) {
  std::packaged_task<void()> packaged(std::move(task));
  auto done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(packaged));
    wake_.notify_all();
  }
  if (done.wait_until(deadline.at()) != std::future_status::ready) {
    throw late(deadline).during(what);
  }
  done.get();
}

void MpiThread::run() {
  constexpr int kYields = 500;  // Few: the cores are for those who compute.
  Backoff backoff(kYields);
  for (;;) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      if (std::exchange(in_task_, false)) {
        wake_.notify_all();
      }
      const auto has_work = [&] {
        return stop_ || !tasks_.empty() || (operations_ > 0 && waiting_ == 0);
      };
      if (!has_work()) {
        wake_.wait(lock, has_work);
        backoff = Backoff(kYields);
      }
      if (stop_) {
        return;
      }
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
        in_task_ = true;
      }
    }
    if (task.valid()) {
      const std::lock_guard alone(calls_);
      task();
    } else {
      poll_();
      backoff.pause();
    }
  }
}

}  // namespace lockstep::comm
