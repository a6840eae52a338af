// Heartbeats between launchers. A separate thread sends them, so that a slow name look-up, a log on
// a slow disk or a long sweep does not look like a dead node.
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

// The socket of a connection and the bytes still to be sent. Only one thread may read; any thread
// may call post(), flush() and beat().
class Outbox {
 public:
  // `socket` is connected; it becomes non-blocking.
  explicit Outbox(UniqueFd socket);

  void post(std::string_view bytes);
  // Sends as much as the other side accepts now.
  void flush();
  // Sends a heartbeat if nothing was sent for an interval. Bytes that still wait to be sent serve
  // as one.
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
  // Starts the thread. Signals must be blocked before, or the thread could take them.
  Heartbeats();
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  // Sends heartbeats for this outbox as long as somebody else owns it.
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
