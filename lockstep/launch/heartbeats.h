// Signs of life between launchers, sent by a thread of their own: a slow look-up of a name, a log
// on a slow disk or a long sweep must not look like a dead node.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::launch {

// The socket of a connection and what is still to be sent over it. Reading is for one thread;
// post(), flush() and beat() are for any.
class Outbox {
 public:
  // `socket` is connected; it becomes non-blocking.
  explicit Outbox(UniqueFd socket);

  void post(std::string_view bytes);
  // Sends what the other side takes now.
  void flush();
  // Sends a heartbeat if nothing was sent for an interval. While older bytes wait, those will do.
  void beat();
  void close();

  // Changed by close() alone.
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] std::size_t unsent() const;

 private:
  void flush_locked();

  mutable std::mutex mutex_;
  UniqueFd socket_;
  std::string unsent_;
  Deadline::Clock::time_point last_sent_;
};

class Heartbeats {
 public:
  // Starts the thread. Signals must be blocked by then, or the thread could take them.
  Heartbeats();
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  // Beats for it as long as somebody else owns it.
  void add(const std::shared_ptr<Outbox>& outbox);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::weak_ptr<Outbox>> outboxes_;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::launch
