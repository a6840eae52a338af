// Messages from one rank to another, with tags, over TCP.
//
// Two ranks are connected when one of them first sends to the other or waits for a message of it;
// what was posted before that is sent then. A small message is sent at once, a large one when it is
// wanted. A rank reads no more of one whose messages that nobody asked for take 64 MiB, until it
// asks for one or waits for something of it: then a small send, too, is done only later. Receives of one source and tag get the messages in the order in which they were sent, and
// are served in the order in which they were posted.
#pragma once

#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/net/message.h"

namespace lockstep::net {

// Thread-safe, and not for a fork of the process that made it, which must not destroy it either.
class Mailbox {
 public:
  // Listens at this numeric address of this machine. Throws UsageError if it is none.
  Mailbox(int rank, const std::string& address);
  // close(), then what is left fails. It may be called by what when_done() calls.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // What the other ranks have to know.
  [[nodiscard]] const std::string& card() const { return card_; }
  // Once, before the first message: all ranks' cards. Throws PeerError for text that is none.
  void open(const std::vector<std::string>& cards);

  // They do not block. `owner` keeps what `data` points to, which is the caller's own again when
  // the message is done without an error.
  MessagePointer send(int to, std::uint64_t tag, std::span<const std::byte> data,
                      std::shared_ptr<const void> owner);
  MessagePointer receive(int from, std::uint64_t tag, std::span<std::byte> data,
                         std::shared_ptr<const void> owner);

  // False at the deadline, and it goes on.
  bool wait_until(const Message& message, Deadline deadline);
  // Calls `tell`, which does not throw, once when it is done, in the mailbox's thread. At the
  // deadline the message fails.
  void when_done(MessagePointer message, Deadline deadline, std::function<void()> tell);

  // Ends all connections; whoever waits here gets an error with this reason, and peers one that
  // names this rank. The first reason stays.
  enum class Close {
    kAtOnce,
    kPolitely,  // What was sent arrives first, where that takes less than a second.
  };
  void close(const std::string& reason, Close how);

  // So many ranks are connected with this one.
  [[nodiscard]] std::size_t connections() const;

 private:
  struct Order;
  struct State;
  void give(Order order);
  MessagePointer post(bool is_send, int peer, std::uint64_t tag, std::span<std::byte> data,
                      std::shared_ptr<const void> owner);

  std::shared_ptr<State> state_;  // Shared with the thread, which may end this.
  std::string card_;
  std::thread thread_;
};

}  // namespace lockstep::net
