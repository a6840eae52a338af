// One rank of a group in shared memory: how ranks meet.
//
// Collectives are built on three calls: announce() says what this rank is about to do, agree()
// waits until all ranks have said the same, meet() waits for all of them once more. All ranks may
// read after a meeting what any rank wrote before it. docs/internals/shm.md explains the protocol
// and why it is correct.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/peers/call.h"
#include "lockstep/shm/peers/watch.h"
#include "lockstep/shm/segments/memory.h"

namespace lockstep::shm {

struct TeamOptions {
  // Size of each of a rank's two staging buffers; small enough to stay in the cache.
  std::size_t staging_bytes = std::size_t{128} << 10;
  // Address space that the arena begins with; more is added as it is needed.
  std::size_t arena_bytes = std::size_t{2} << 20;
  // The ranks' numbers in errors, if they have other numbers in the job; empty: 0, 1, 2, ...
  std::vector<int> numbers;
  // Called with a message, once per wait and rank, when a peer is stopped.
  std::function<void(const std::string&)> notice;
  // For tests that count lost wake-ups: see Watch::Options.
  std::chrono::milliseconds bell_patience{0};
};

// One thread at a time may run collectives.
class Team {
 public:
  // All ranks call it. See exchange_segments() and Memory::prepare() for what it throws.
  static std::unique_ptr<Team> join(int rank, int size, Board& board, Deadline deadline,
                                    const TeamOptions& options = {});
  // Makes the ranks of a group as threads of this process, with one mapping of each segment, so
  // that ThreadSanitizer can watch them.
  static std::vector<std::unique_ptr<Team>> in_process(int size, const TeamOptions& options = {});

  Team(int rank, std::shared_ptr<Memory> memory, std::vector<Peer> peers,
       const TeamOptions& options);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();  // Leaves.

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return memory_->layout().size; }
  [[nodiscard]] const std::shared_ptr<Memory>& memory() const { return memory_; }
  [[nodiscard]] Watch& watch() { return watch_; }

  // Names the collectives that follow, in errors here and on the other ranks.
  void call_it(const CallName& name) { name_ = name; }

  // Begins the next collective. Throws PeerError if the group is broken.
  void announce(const Call& call, Deadline deadline);
  // The first meeting of a collective. Returns all ranks' calls. If they do not match, throws on
  // all ranks a PeerError that shows both sides.
  const std::vector<Call>& agree();
  // Waits until all ranks have come to the same point. Throws PeerError; see Watch::wait().
  void meet();
  // For differences that agree() does not see; all ranks must find the same one.
  [[noreturn]] void mismatch(const std::string& difference);

  // Each rank's staging buffer of this turn. docs/internals/shm.md says when which part may be
  // written.
  [[nodiscard]] std::byte* staging(int rank) const { return memory_->staging(rank, turn_); }
  [[nodiscard]] std::byte* staging_of_next_turn(int rank) const {
    return memory_->staging(rank, turn_ + 1);
  }
  void next_turn() { ++turn_; }
  // The tables of the collective that was announced.
  [[nodiscard]] Word* sent_sizes(int rank) const { return memory_->sent_sizes(rank, sequence_); }
  [[nodiscard]] Word* received_sizes(int rank) const {
    return memory_->received_sizes(rank, sequence_);
  }
  // A peer's tensor, if the peer says that the tensor lies in its arena; null otherwise. Throws
  // IoError, and breaks the group, if this process has no address space to map it.
  [[nodiscard]] std::byte* placed(int rank, const Call& call, std::size_t bytes);

  // Lists by rank for the current collective. They are kept between calls, because allocating four
  // vectors takes longer than a small collective.
  struct Scratch {
    std::vector<std::byte*> placed;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    std::vector<double> factors;
  };
  [[nodiscard]] Scratch& scratch() { return scratch_; }

  // Counts what reductions copied into and out of staging buffers. Any thread may ask.
  void count_copied(std::size_t bytes) { copied_.fetch_add(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t copied() const { return copied_.load(std::memory_order_relaxed); }

  // Collectives that were announced so far.
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  // "all_reduce #12 (sum, float32, 256 elements) on rank 0 of 2".
  [[nodiscard]] std::string what() const;

 private:
  [[nodiscard]] bool all_here() const;
  [[nodiscard]] std::vector<int> absent() const;
  [[nodiscard]] std::vector<int> others() const;
  bool spin() const;

  int rank_;
  std::shared_ptr<Memory> memory_;
  Watch watch_;
  bool may_spin_;
  Call call_;
  CallName name_;
  std::vector<Call> calls_;
  Scratch scratch_;
  std::optional<Deadline> deadline_;
  std::uint64_t sequence_ = 0;
  std::uint64_t phase_ = 0;
  std::uint64_t turn_ = 0;
  std::atomic<std::uint64_t> copied_{0};
};

}  // namespace lockstep::shm
