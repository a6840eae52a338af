// The thread that does all work of a mailbox: it sends, receives, and watches the time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/net/callback_thread.h"
#include "lockstep/net/exchange.h"

namespace lockstep::net {

enum class Close {
  kAtOnce,
  kPolitely,  // What was sent arrives first, as long as it goes on within a second.
};

// Its functions are thread-safe.
class NetworkThread {
 public:
  // `callbacks` lives longer.
  NetworkThread(int rank, std::vector<RankAddress> addresses, Listener listener,
                CallbackThread& callbacks);
  ~NetworkThread() { stop(); }
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  void post(MessagePointer message);
  void give_up(const MessagePointer& message, const std::string& words);
  void set_progress(std::uint64_t progress) { exchange_.set_progress(progress); }
  bool wait_until(const Message& message, Deadline deadline);
  void when_done(MessagePointer message, Deadline deadline, std::function<void()> tell);
  void close(const std::string& reason, Close how);
  // close() politely, then waits until the thread has ended. All messages are done then; those
  // that are posted later fail.
  void stop();
  [[nodiscard]] std::size_t connections() const { return connections_; }

 private:
  struct Order {
    enum class What { kPost, kGiveUp, kTell, kClose, kStop };
    What what;
    MessagePointer message = nullptr;
    Deadline deadline = Deadline::in({});
    std::function<void()> tell = nullptr;
    std::string reason = {};
    Close how = Close::kAtOnce;
  };
  void enqueue(Order order);
  void run();
  void obey(Order& order);
  void check_times();
  void begin_to_leave(const std::string& why);
  void go_on_leaving();
  void end(const Failure& why);
  void finish(const MessagePointer& message, const Failure& failure);
  [[nodiscard]] Deadline next_look() const;

  const int rank_;
  CallbackThread& callbacks_;
  const UniqueFd wake_;
  std::atomic<std::size_t> connections_{0};

  std::mutex mutex_;
  std::condition_variable one_done_;  // Or all connections have ended.
  std::vector<Order> orders_;
  bool is_over_ = false;  // Orders are obeyed by whoever gives them: there is little to do.

  // The thread's alone; when it is over, what is read stays as it is.
  Exchange exchange_;
  std::optional<Failure> closed_;  // Why. Set once.
  std::vector<Order> timed_;
  struct Leaving {
    Deadline until;  // All of it.
    Deadline progress_by;
    std::size_t bytes_sent = 0;
    bool sends_are_over = false;
  };
  std::optional<Leaving> leaving_;
  bool has_ended_ = false;  // All connections. Set under the lock.
  bool stop_ = false;
  std::mutex stop_mutex_;  // Held by the thread that joins it.
  std::thread thread_;     // Last: it uses the others.
};

}  // namespace lockstep::net
