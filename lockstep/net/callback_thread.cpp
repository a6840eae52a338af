#include "lockstep/net/callback_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace lockstep::net {

struct CallbackThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> callbacks;
  bool stop = false;
};

CallbackThread::CallbackThread() : state_(std::make_shared<State>()) {}

void CallbackThread::stop() {
  const auto state = state_;
  std::thread thread;
  {
    const std::lock_guard lock(state->mutex);
    state->stop = true;
    thread.swap(thread_);
  }
  state->changed.notify_all();
  if (std::this_thread::get_id() == thread.get_id()) {
    run_all(*state);
    // In a callback: nobody can join itself. The thread ends when that returns, and touches only
    // the state, which it keeps.
    thread.detach();
  } else if (thread.joinable()) {
    thread.join();
  }
}

void CallbackThread::run_all(State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.callbacks.empty()) {
    auto callback = std::move(state.callbacks.front());
    state.callbacks.pop_front();
    lock.unlock();
    try {
      callback();
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever wants to know catches it there.
    }
    callback = nullptr;  // What it holds may end here, too.
    lock.lock();
  }
}

void CallbackThread::start() {
  const auto state = state_;
  const std::lock_guard lock(state->mutex);
  if (!state->stop && !thread_.joinable()) {
    thread_ = std::thread([state] { run(*state); });
  }
}

void CallbackThread::call(std::function<void()> callback) {
  const auto state = state_;
  {
    const std::lock_guard lock(state->mutex);
    state->callbacks.push_back(std::move(callback));
    if (!state->stop) {
      state->changed.notify_all();
      return;
    }
  }
  run_all(*state);
}

void CallbackThread::run(State& state) {
  bool stop = false;
  while (!stop) {
    {
      std::unique_lock lock(state.mutex);
      state.changed.wait(lock, [&] { return state.stop || !state.callbacks.empty(); });
      stop = state.stop;
    }
    run_all(state);
  }
}

}  // namespace lockstep::net
