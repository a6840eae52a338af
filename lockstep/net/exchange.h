// Which message belongs to which receive.
//
// A small message is sent at once and kept by the receiver until it is wanted; of a large one the
// receiver gets an offer, and the bytes when it has taken that.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <utility>

#include "lockstep/net/arrivals.h"
#include "lockstep/net/message.h"
#include "lockstep/net/peers.h"

namespace lockstep::net {

// For one thread.
class Exchange {
 public:
  // Called for each message; with kNone if it was delivered. A message that was given up may be
  // finished again: then it is not news.
  using Finish = std::function<void(const MessagePointer&, const Failure& failure)>;
  Exchange(int rank, std::vector<RankAddress> addresses, Listener listener, Finish finish);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(const MessagePointer& message);
  void receive(const MessagePointer& message);
  void ask(const MessagePointer& message);
  // What this rank answers to the others' questions. From any thread.
  void set_progress(std::uint64_t progress) { progress_ = progress; }
  // Fails the message if it is not done. What comes for it, even if already under way, goes to the
  // next receive. Its memory is neither read nor written from then on.
  void give_up(const MessagePointer& message, const Failure& failure);
  void give_up_all(const Failure& failure);

  // For its turns.
  [[nodiscard]] Peers& peers() { return peers_; }

  // Receives fail; sends go on.
  void leave(const Failure& failure);
  void give_up_sends(const Failure& failure);
  // Call it in each turn after leave(). Says goodbye to ranks to which nothing is left to send.
  void say_goodbyes();

 private:
  // A large message whose offer was taken.
  struct Coming {
    MessagePointer message;            // Who gets it; null where that was given up.
    Frame offer = {};                  // Its size and tag.
    std::vector<std::byte> kept = {};  // For the next, where it was given up; else nobody wants it.
    [[nodiscard]] std::byte* address();
  };

  [[nodiscard]] bool wants_to_read(int peer) const;
  [[nodiscard]] Failure why_nobody() const;
  void wait_for(const MessagePointer& message);
  // The offer that it had taken was withdrawn: it is first in line again.
  void receive_again(const MessagePointer& message);
  std::byte* begin(int peer, const Frame& frame);
  void end(int peer, const Frame& frame);
  void answer(int peer, const Frame& frame);
  void be_told(int peer, const Frame& frame);
  void withdraw(int peer, const Frame& frame);
  void was_sent(const MessagePointer& message);
  void take_back(const Message& message);
  void arrive(Arrival arrival);
  void deliver(const MessagePointer& message, const Arrival& arrival);
  void take(const MessagePointer& message, const Arrival& offer);
  void leave_to_next(const MessagePointer& message, const Failure& failure);
  void lose(int peer);
  // Fails the messages of a list for which the condition holds.
  template <class Condition>
  void fail(std::list<MessagePointer>& list, const Failure& failure, Condition condition);

  int rank_;
  Finish finish_;
  std::map<int, std::vector<std::byte>> reading_;  // Small messages, while they come.
  std::list<MessagePointer> sends_;                // Not done.
  std::list<MessagePointer> receives_;             // Not matched.
  std::list<MessagePointer> questions_;            // Not answered.
  std::atomic<std::uint64_t> progress_{0};
  Arrivals arrivals_;
  std::map<std::uint64_t, MessagePointer> offered_;
  std::map<std::pair<int, std::uint64_t>, Coming> taken_;  // By source and the offer's number.
  std::uint64_t next_id_ = 1;
  bool is_leaving_ = false;
  std::vector<bool> said_bye_;
  std::vector<std::uint64_t> last_offer_;  // The number of each rank's last one; they rise.
  Peers peers_;  // Last: its connections send and receive what the others own.
};

template <class Condition>
void Exchange::fail(std::list<MessagePointer>& list, const Failure& failure, Condition condition) {
  for (auto one = list.begin(); one != list.end();) {
    const MessagePointer message = *one;
    const bool fails = condition(*message);
    one = fails ? list.erase(one) : std::next(one);
    if (fails) {
      finish_(message, failure);
    }
  }
}

}  // namespace lockstep::net
