// Messages from one rank to another, with tags, over TCP.
//
// Two ranks are connected when one of them first sends to the other or waits for a message from it;
// what was posted before that is sent then. A small message is sent at once, a large one when it is
// wanted. A rank stops reading from a peer once 64 MiB of that peer's messages have arrived
// unrequested, until it asks the peer for one, waits for something from it or sends to it.
// Meanwhile even small sends of the peer are not done. While it waits or sends there is no limit.
// Receives of one source and tag get the messages in the order in which they were sent, and are
// served in the order in which they were posted. When a receive is given up, its message goes to
// the first receive that has none yet. A large message that a later receive has already taken stays
// with that receive.
//
// A message whose send was done without an error still arrives if the sender then leaves in order,
// unless the receiver reads nothing for a second and then sends to the rank that left.
#pragma once

#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/net/message.h"
#include "lockstep/net/network_thread.h"

namespace lockstep::net {

// Thread-safe. In a fork of the process that made it every call throws UsageError; its destructor
// closes nothing and ends nothing there. The fork has the sockets until it ends or calls exec():
// while it lives, the others do not notice that its parent was killed.
class Mailbox {
 public:
  using Close = net::Close;

  // Listens at this numeric address of this machine. Throws UsageError if it is none.
  Mailbox(int rank, const std::string& address);
  // stop()
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // What the other ranks have to know.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }
  // Once, before the first message: all ranks' addresses. Throws PeerError for text that is none.
  void open(const std::vector<std::string>& addresses);

  // They do not block. `owner` keeps what `data` points to, which is the caller's own again when
  // the message is done, also with an error: then it is neither read nor written any more.
  MessagePointer send(int to, std::uint64_t tag, std::span<const std::byte> data,
                      std::shared_ptr<const void> owner);
  MessagePointer receive(int from, std::uint64_t tag, std::span<std::byte> data,
                         std::shared_ptr<const void> owner);

  // Gives up a message that timed out: if it is not done, it fails with these words. If it is a
  // receive, what comes for it goes to the next receive, even if it is already under way. Returns
  // when the message is done, within moments; it may have been delivered just now.
  void give_up(const MessagePointer& message, const std::string& words);

  // How far another rank is: what it gave to set_progress(), 0 before that. Its network thread
  // answers by itself, whatever else the rank does, so one that does not answer soon is stopped or
  // cannot be reached.
  MessagePointer ask(int peer);
  void set_progress(std::uint64_t progress);

  // False at the deadline, and it goes on.
  bool wait_until(const Message& message, Deadline deadline);
  // Calls `tell` once when it is done, in a thread for that alone: it may wait for other messages,
  // but not for another `tell`. What it throws is lost. At the deadline it is given up.
  void when_done(MessagePointer message, Deadline deadline, std::function<void()> tell);

  // Ends all connections; whoever waits here gets an error with this reason, and peers one that
  // names this rank. The first reason stays. With kPolitely it returns at once; with kAtOnce all
  // messages are done when it returns, within moments.
  void close(const std::string& reason, Close how);
  // close() politely; returns when all messages are done and whoever had to be told has been. May
  // be called by a `tell`; then it tells the rest itself.
  void stop();

  // The number of ranks that are connected with this one.
  [[nodiscard]] std::size_t connections() const;

 private:
  void require_owner() const;
  MessagePointer post(std::shared_ptr<Message> message);

  ForkGuard fork_guard_;
  const int rank_;
  Listener listener_;  // Until open().
  std::string own_address_;
  std::unique_ptr<CallbackThread> callbacks_;
  std::unique_ptr<NetworkThread> network_;
};

}  // namespace lockstep::net
