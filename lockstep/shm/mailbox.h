// Messages from one rank to another, with tags.
//
// A message is copied into the sender's arena when it is sent, so a send is complete at once and
// two ranks that first send and then receive do not wait for each other. Receives of one source and
// tag get the messages in the order in which they were sent, and are served in the order in which
// they were posted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/team.h"

namespace lockstep::shm {

inline constexpr int kAnySource = -1;

// A receive that was posted.
struct Receipt {
  int source = kAnySource;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> owner;  // Keeps `data` alive, also when nobody waits any more.

  bool done = false;  // The rest is set by then.
  int from = -1;      // Who sent it.
  std::string error;  // The message was of another size and is lost.
};

// Thread-safe.
class Mailbox {
 public:
  explicit Mailbox(Team& team);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Throws IoError if there is no memory for the copy.
  void send(int destination, std::uint64_t tag, const std::byte* data, std::size_t bytes);
  // `receipt` says what is wanted and where to.
  std::shared_ptr<Receipt> post(Receipt receipt);

  // Delivers what can be delivered without waiting. False if messages of this rank still wait for
  // a free letter: someone must call it again.
  bool progress();
  bool is_done(const Receipt& receipt);
  // Throws PeerError if the source ends or does not send before the deadline, UsageError if the
  // message has another size.
  void wait(const Receipt& receipt, Deadline deadline);

 private:
  struct Parcel {
    int destination;
    std::uint64_t number;
    std::uint64_t tag;
    std::size_t place;
    std::size_t bytes;
  };
  bool try_post(const Parcel& parcel);
  void reclaim(int destination);
  bool deliver(Receipt& receipt);
  void copy_from(Letter& letter, int from, Receipt& receipt);
  void progress_locked();

  Team& team_;
  std::mutex mutex_;
  std::vector<std::uint64_t> sent_;  // Messages by destination.
  std::vector<std::vector<std::size_t>>
      places_;  // Arena memory by destination and letter; 0: none.
  std::deque<Parcel> unposted_;
  std::list<std::shared_ptr<Receipt>> open_;
};

}  // namespace lockstep::shm
