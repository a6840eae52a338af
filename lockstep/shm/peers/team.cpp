#include "lockstep/shm/peers/team.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep::shm {
namespace {

// What makes all that a rank wrote before a meeting visible to the others; each of them reads the
// phase with an acquire. A test builds this file with a relaxed store and sees the race reported.
#ifdef LOCKSTEP_SHM_PLANT_A_RACE
constexpr auto kPublish = std::memory_order_relaxed;
#else
constexpr auto kPublish = std::memory_order_seq_cst;
#endif

// Longer than a meeting of ranks that run at the same time, shorter than what sleeping costs.
constexpr std::chrono::microseconds kSpin{50};
// After this the peer may be waiting for this very core: a busy machine puts two ranks on one.
constexpr std::chrono::microseconds kSpinAlone{3};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void check(int size, const TeamOptions& options) {
  if (size < 1 || size > kMaxRanks) {
    throw UsageError("shared memory: a group of " + std::to_string(size) +
                     " ranks, expected 1 to " + std::to_string(kMaxRanks));
  }
  // Each rank has a slice of it, of whole cache lines. Peers compare it as 32 bits.
  const std::size_t least = static_cast<std::size_t>(size) * kLine;
  constexpr std::size_t kMost = std::size_t{1} << 31;
  if (options.staging_bytes < least || options.staging_bytes > kMost) {
    throw UsageError("shared memory: TeamOptions::staging_bytes is " +
                     std::to_string(options.staging_bytes) + ", expected " + std::to_string(least) +
                     " to " + std::to_string(kMost) + " for " + std::to_string(size) + " ranks");
  }
}

std::vector<Peer> numbered(std::vector<Peer> peers, const std::vector<int>& numbers) {
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    peers.at(rank).number = numbers[rank];
  }
  return peers;
}

}  // namespace

std::unique_ptr<Team> Team::join(int rank, int size, Board& board, Deadline deadline,
                                 const TeamOptions& options) {
  check(size, options);
  if (rank < 0 || rank >= size) {
    throw UsageError("shared memory: rank " + std::to_string(rank) + " of a group of " +
                     std::to_string(size));
  }
  const Layout layout(size, options.staging_bytes);
  Ring ring = exchange_segments(Memory::prepare(layout, rank, options.arena_bytes), rank, size,
                                board, deadline);
  auto memory = std::make_shared<Memory>(layout, std::move(ring.segments));
  return std::make_unique<Team>(rank, std::move(memory), std::move(ring.peers), options);
}

std::vector<std::unique_ptr<Team>> Team::in_process(int size, const TeamOptions& options) {
  check(size, options);
  const Layout layout(size, options.staging_bytes);
  std::vector<Segment> segments;
  for (int rank = 0; rank < size; ++rank) {
    segments.push_back(Memory::prepare(layout, rank, options.arena_bytes));
  }
  const auto memory = std::make_shared<Memory>(layout, std::move(segments));
  const std::vector<Peer> peers(static_cast<std::size_t>(size),
                                Peer{identify(::getpid()), host_name()});
  std::vector<std::unique_ptr<Team>> teams;
  for (int rank = 0; rank < size; ++rank) {
    teams.push_back(std::make_unique<Team>(rank, memory, peers, options));
  }
  return teams;
}

Team::Team(int rank, std::shared_ptr<Memory> memory, std::vector<Peer> peers,
           const TeamOptions& options)
    : rank_(rank),
      memory_(std::move(memory)),
      watch_(rank, *memory_, numbered(std::move(peers), options.numbers),
             {.notice = options.notice, .bell_patience = options.bell_patience}),
      may_spin_(memory_->layout().size <= usable_cores()),
      calls_(static_cast<std::size_t>(memory_->layout().size)) {}

Team::~Team() { watch_.leave(); }

void Team::announce(const Call& call, Deadline deadline) {
  watch_.throw_if_broken();
  call_ = call;
  call_.name = name_;
  deadline_ = deadline;
  ++sequence_;
  call_.write_to(memory_->control(rank_).announcements[sequence_ % 2], sequence_);
}

const std::vector<Call>& Team::agree() {
  meet();
  for (int rank = 0; rank < size(); ++rank) {
    const auto& announcement = memory_->control(rank).announcements[sequence_ % 2];
    Call& call = calls_[static_cast<std::size_t>(rank)];
    call = Call::read_from(announcement);
    if (announcement.sequence.load(std::memory_order_relaxed) != sequence_) {
      mismatch(watch_.who(rank) + " is at another collective");
    }
  }
  const auto other = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const Call& call) { return !call.matches(calls_[0]); });
  if (other != calls_.end()) {
    const auto rank = static_cast<int>(other - calls_.begin());
    mismatch(watch_.who(0) + " calls " + calls_[0].text() + ", " + watch_.who(rank) + " calls " +
             other->text());
  }
  if (!calls_[0].matches(call_)) {
    mismatch("all ranks' announcements, this rank's too, say " + calls_[0].text() +
             ", but this rank calls " + call_.text() +
             "; a rank has written into another's memory");
  }
  return calls_;
}

void Team::mismatch(const std::string& difference) {
  watch_.break_up(Watch::Reason::kMismatch,
                  what() + ": the ranks' calls do not match: " + difference +
                      "; all ranks must run the same collectives in the same order");
  watch_.throw_if_broken();
  throw PeerError(difference);  // Not reached: it is broken now.
}

// The last to come wakes those that sleep: it alone can see that all are here, and it does see it,
// because its store is the last of all in the order of sequentially consistent operations.
void Team::meet() {
  ++phase_;
  memory_->control(rank_).phase.store(phase_, kPublish);
  if (all_here()) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != rank_) {
        watch_.ring(rank);
      }
    }
  } else if (!may_spin_ || !spin()) {
    deadline_ = watch_.wait({.what = [this] { return what(); },
                             .ready = [this] { return all_here(); },
                             .awaited = [this] { return absent(); },
                             .needed = [this] { return others(); },
                             .deadline = deadline_.value_or(Deadline::in(std::chrono::seconds(0)))},
                            Watch::Then::kBreak);
  }
  watch_.throw_if_given_up(phase_, [this] { return what(); });
}

bool Team::spin() const {
  const auto start = Deadline::Clock::now();
  auto now = start;
  while (now < start + kSpin) {
    for (int i = 0; i < 16; ++i) {
      if (all_here()) {
        return true;
      }
      relax();
    }
    now = Deadline::Clock::now();
    if (now > start + kSpinAlone) {
      ::sched_yield();
    }
  }
  return false;
}

bool Team::all_here() const {
  for (int rank = 0; rank < size(); ++rank) {
    if (memory_->control(rank).phase.load() < phase_) {
      return false;
    }
  }
  return true;
}

std::vector<int> Team::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (memory_->control(rank).phase.load() < phase_) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// All ranks must live for a meeting: one that arrived and then ended is missing, too.
std::vector<int> Team::others() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::byte* Team::placed(int rank, const Call& call, std::size_t bytes) {
  if (call.place == 0) {
    return nullptr;
  }
  try {
    return memory_->at(rank, call.place, bytes, size_of(call.dtype));
  } catch (const IoError& error) {
    const std::string text = what() + ": " + error.what();
    watch_.break_up(Watch::Reason::kAborted, text);
    throw IoError(text);
  }
}

std::string Team::what() const { return call_.text(sequence_) + " on " + watch_.self(); }

}  // namespace lockstep::shm
