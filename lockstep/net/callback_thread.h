// A thread in which callbacks run, one after the other, so that the network goes on meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace lockstep::net {

// Thread-safe.
class CallbackThread {
 public:
  CallbackThread();
  ~CallbackThread() { stop(); }
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  // Call it before call(); throws std::system_error if no thread can be started. Nothing happens if
  // it was started or stopped before.
  void start();
  // What it throws is lost: there is nobody to tell. A callback may wait for anything but another
  // callback.
  void call(std::function<void()> callback);
  // Returns when all callbacks have. In a callback, which may drop the last pointer to the owner of
  // this, it runs those that are left itself; the thread then ends when that callback returns.
  // Later callbacks run in call().
  void stop();

 private:
  struct State;  // Shared with the thread: a callback may end this.
  static void run(State& state);
  static void run_all(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;  // Under the lock of the state.
};

}  // namespace lockstep::net
