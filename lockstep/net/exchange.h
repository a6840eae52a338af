// Which message belongs to which receive, and through which connection it goes.
#pragma once

#include <list>
#include <map>
#include <utility>

#include "lockstep/base/socket.h"
#include "lockstep/net/arrivals.h"
#include "lockstep/net/link.h"
#include "lockstep/net/message.h"

namespace lockstep::net {

// What a rank must know of another to reach it.
struct Card {
  Endpoint endpoint;
  std::uint64_t token = 0;  // Tells the ranks of a group from who knocks by mistake.

  [[nodiscard]] std::string to_text() const;
  // Throws PeerError for text that is none.
  static Card from_text(const std::string& text);
};

// For one thread.
class Exchange {
 public:
  // Called once for each message; with kNone if it was delivered.
  using Finish = std::function<void(const MessagePointer&, const Failure& failure)>;
  // `cards`: all ranks', by rank.
  Exchange(int rank, std::vector<Card> cards, Finish finish);

  void send(const MessagePointer& message);
  void receive(const MessagePointer& message);
  // It fails, if it is not done; what comes for it later is for the next.
  void give_up(const MessagePointer& message, const Failure& failure);
  void give_up_all(const Failure& failure);

  // Somebody has connected.
  void adopt(UniqueFd socket) { links_.emplace_back(std::move(socket)); }
  // For poll().
  [[nodiscard]] std::list<Link>& links() { return links_; }
  // Not while messages of this rank that nobody asked for take 64 MiB here, unless this rank waits
  // for something of it: that may come behind them. So a wait never depends on the limit.
  [[nodiscard]] bool wants_to_read(const Link& link) const;
  // After links were written to and read.
  void drop_closed();
  [[nodiscard]] const Link::Receiver& receiver() const { return receiver_; }
  // What was sent is still on its way; all else fails. Tells the others that nothing follows.
  void leave(const Failure& failure);
  // Where all is sent.
  void end_sending();

 private:
  Link* link_to(int peer);
  [[nodiscard]] bool is_linked(int peer) const;
  [[nodiscard]] Failure why_gone(int peer) const;
  [[nodiscard]] Failure why_nobody() const;
  [[nodiscard]] static bool fits(const Message& message, const Arrival& arrival);
  std::byte* begin(Link& link, const Frame& frame);
  void end(Link& link, const Frame& frame);
  void greet(Link& link, const Frame& frame);
  void answer(Link& link, const Frame& frame);
  void was_sent(const MessagePointer& message);
  void arrive(Arrival arrival);
  void deliver(const MessagePointer& message, const Arrival& arrival);
  void lose(int peer);
  // Those of a list for which the condition holds fail.
  template <class Condition>
  void fail(std::list<MessagePointer>& list, const Failure& failure, Condition condition);

  int rank_;
  std::vector<Card> cards_;
  Finish finish_;
  Link::Receiver receiver_;
  std::list<Link> links_;
  std::map<const Link*, std::vector<std::byte>> reading_;  // Small messages, while they come.
  struct Peer {
    Link* link = nullptr;   // Through which it is sent to.
    std::string gone;       // Why it cannot be reached any more.
    bool has_left = false;  // In order, as far as can be seen.
  };
  std::vector<Peer> peers_;
  std::list<MessagePointer> sends_;     // Not done.
  std::list<MessagePointer> receives_;  // Not matched.
  Arrivals arrivals_;
  std::map<std::uint64_t, MessagePointer> offered_;
  std::map<std::pair<int, std::uint64_t>, MessagePointer> taken_;
  std::uint64_t next_offer_ = 1;
  bool is_leaving_ = false;
};

}  // namespace lockstep::net
