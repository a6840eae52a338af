// The thread that calls MPI when no one else does; private to comm.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {

// The pause between two looks at something that is not done. Yields at first, since a peer on this
// host may need the core; then sleeps, longer and longer. A large message moves a piece at each
// look, so a waiting thread sleeps only after many of them (20,000 looks take about 20 ms).
class Backoff {
 public:
  explicit Backoff(int yields) : yields_(yields) {}
  void pause();

 private:
  int yields_;
  std::chrono::microseconds sleep_{20};
};

// Calls `poll` while operations are under way and nobody waits for one, and runs tasks that may
// block.
class MpiThread {
 public:
  // `calls` is MPI's lock: held during a task, and not while polling.
  MpiThread(std::timed_mutex& calls, std::function<void()> poll);

  // Runs the task in this thread while nobody else calls MPI. Throws what the task throws, and
  // PeerError at the deadline; the task then goes on, and everything else waits for it.
  void run_alone(const std::string& what, std::function<void()> task, Deadline deadline);
  // How many operations are under way.
  void watch(std::size_t operations);
  // Joins the thread, or detaches it if it is inside a task that does not end within a second.
  void stop();

  // While someone waits, and so polls, the thread rests.
  class Rest {
   public:
    explicit Rest(MpiThread& thread);
    ~Rest();
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;

   private:
    MpiThread& thread_;
  };

  MpiThread(const MpiThread&) = delete;
  MpiThread& operator=(const MpiThread&) = delete;

 private:
  void run();

  std::timed_mutex& calls_;
  std::function<void()> poll_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::size_t operations_ = 0;
  int waiting_ = 0;
  bool in_task_ = false;
  bool stop_ = false;
  std::thread thread_;  // Last: it uses the others.
};

// How errors tell that a time is over.
PeerError late(Deadline deadline);

}  // namespace lockstep::comm
