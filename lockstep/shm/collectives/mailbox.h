// Messages from one rank to another, with tags.
//
// A message is copied into the sender's arena when it is sent, so a send is complete at once, two
// ranks that first send and then receive do not wait for each other, and what was sent arrives even
// if the sender has ended. Receives of one source and tag get the messages in the order in which
// they were sent, and are served in the order in which they were posted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/peers/team.h"

namespace lockstep::shm {

inline constexpr int kAnySource = -1;

// A receive that was posted.
struct Receipt {
  int source = kAnySource;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> owner;  // Keeps `data` alive, also when nobody waits any more.

  bool done = false;  // Delivered or failed. The rest is set by then.
  int from = -1;      // Who sent it.
  // UsageError: the message had another size and is lost. PeerError: nobody sent it in time, or
  // nobody can any more; the receive was withdrawn, and later messages are for the next receive.
  std::exception_ptr failure;
};

// Thread-safe. In a fork of the process that made it every call throws UsageError.
class Mailbox {
 public:
  explicit Mailbox(Team& team);

  // Throws IoError if there is no memory for the copy.
  void send(int destination, std::uint64_t tag, const std::byte* data, std::size_t bytes);
  // `wanted` says what is wanted and where to.
  std::shared_ptr<Receipt> post(Receipt wanted);

  // Delivers what has come, then tells whether this one is done.
  bool has_come(const Receipt& receipt);
  // The same, but it is done also when its source has ended or left, or the group is broken. Does
  // not block.
  bool is_done(const Receipt& receipt);
  // Blocks until the receive is done. At the deadline it fails, and is done.
  void complete(const Receipt& receipt, Deadline deadline);
  // complete(), then throws the failure if there is one.
  void wait(const Receipt& receipt, Deadline deadline);

 private:
  // A letter as this rank sent it, or as it came.
  struct Entry {
    std::uint64_t place;
    std::uint64_t number;  // Counted from 1 along the chain.
  };
  struct Incoming {
    std::uint64_t place;
    std::uint64_t tag;
    std::size_t bytes;
  };
  struct Chain {
    std::list<Entry> outgoing;  // Not yet free.
    std::uint64_t sent = 0;
    std::list<Incoming> incoming;  // Came, and nobody wanted it yet.
    std::uint64_t cursor = 0;      // Place of the last letter that came.
    std::uint64_t seen = 0;
  };

  [[nodiscard]] Letter* letter_at(int from, std::uint64_t place) const;
  void free_taken(int destination);
  void look(int from);
  bool deliver(Receipt& receipt);
  void withdraw(const Receipt& receipt, std::exception_ptr failure);
  [[nodiscard]] Wait wait_for(const Receipt& receipt, Deadline deadline);
  void copy(const Incoming& letter, int from, Receipt& receipt);

  Team& team_;
  std::mutex mutex_;
  std::vector<Chain> chains_;  // By the other rank.
  std::list<std::shared_ptr<Receipt>> open_;
};

}  // namespace lockstep::shm
