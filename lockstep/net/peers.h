// Which ranks this one is connected with: one connection for a pair, made when it is needed.
//
//   kIdle --connect()--> kOpening --welcomed, or a greeting came--> kOpen --bye, end--> kGone
//     \_______________________ a greeting came ____________________/
//
// Two ranks that connect at the same moment keep the connection that the lower one opened: it
// answers the other's greeting with kYield, and the other takes the lower one's. Only greetings
// travel before that is settled, so nothing is ever sent twice or through the wrong one. A
// connection that breaks is not opened again: its rank is gone.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/net/message.h"
#include "lockstep/net/pending_connections.h"
#include "lockstep/net/rank_address.h"

namespace lockstep::net {

// For one thread.
class Peers {
 public:
  // What is called in turn(). They may connect() and post().
  struct Events {
    // As in Link::Receiver.
    std::function<std::byte*(int peer, const Frame&)> begin;
    std::function<void(int peer, const Frame&)> end;
    std::function<void(int peer)> lost;  // why_gone() says why.
    std::function<bool(int peer)> wants_to_read;
  };
  // `addresses`: all ranks', by rank.
  Peers(int rank, std::vector<RankAddress> addresses, Listener listener, Events events);

  // Begins to connect if there is no connection. False if the rank is gone.
  bool connect(int peer);
  // Sent when there is a connection. As Link::push().
  void post(int peer, const Frame& frame, std::span<const std::byte> payload = {},
            std::function<void()> sent = nullptr);
  // As Link::take_back(); also what waits for a connection, which is not returned.
  std::vector<Frame> take_back(int peer, const std::function<bool(const Frame&)>& which);
  // kNone if it is not.
  [[nodiscard]] const Failure& why_gone(int peer) const;
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }

  // Sends, receives, connects and accepts what can be at once; waits until something can be, until
  // `wake` is readable, and at most until `limit`.
  void turn(int wake, Deadline limit);

  // From now on whoever connects is told that this rank leaves.
  void leave() { is_leaving_ = true; }
  // Tells the rank, after all that was posted, that nothing follows. It then ends the connection:
  // so it has read all.
  void say_bye(int peer);
  // No connection is left, nor is one being opened.
  [[nodiscard]] bool is_alone() const;
  // All ranks are gone, with this failure; nobody is told.
  void close_all(const Failure& failure);

  // How many ranks this one is connected with.
  [[nodiscard]] std::size_t connected() const;
  // Grows while something is sent.
  [[nodiscard]] std::size_t bytes_sent() const;

 private:
  struct Posted {
    Frame frame;
    std::span<const std::byte> payload;
    std::function<void()> sent;
  };
  enum class State { kIdle, kOpening, kOpen, kGone };
  struct Peer {
    State state = State::kIdle;
    std::unique_ptr<Link> link;  // kOpening: null between two tries.
    std::vector<Posted> waiting;
    Deadline opened_by = Deadline::in({});   // Then it is given up, unless it is connected.
    Deadline refused_by = Deadline::in({});  // The same where nobody listens.
    Deadline next_try = Deadline::in({});
    bool has_yielded = false;
    bool said_bye = false;
    std::size_t sent_before = 0;  // Through a connection that has ended.
    Failure gone = {};
  };
  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] const Peer& at(int peer) const { return peers_[static_cast<std::size_t>(peer)]; }
  void look_at_times();
  [[nodiscard]] int patience(Deadline limit) const;
  void handle(int peer, short events);
  void greet(PendingConnections::Greeted greeted);
  void check(int peer, const Frame& frame) const;
  void answer(int peer, const Frame& frame);
  void become_open(int peer);
  void push(Peer& peer, Posted posted);
  void link_closed(int peer);
  void lose(int peer, Failure failure);

  int rank_;
  std::vector<RankAddress> addresses_;
  PendingConnections pending_;
  Events events_;
  std::vector<Peer> peers_;
  Deadline look_for_silence_;
  bool is_leaving_ = false;
};

}  // namespace lockstep::net
