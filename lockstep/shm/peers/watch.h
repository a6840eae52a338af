// Waiting for other ranks, and finding out why they do not come.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process/fork_guard.h"
#include "lockstep/base/progress.h"
#include "lockstep/shm/peers/roster.h"
#include "lockstep/shm/segments/memory.h"

namespace lockstep::shm {

struct Wait {
  std::function<std::string()> what;          // Operation and rank, how errors begin.
  std::function<bool()> ready;                // Sequentially consistent loads: see ring().
  std::function<std::vector<int>()> awaited;  // Ranks that it waits for.
  std::function<std::vector<int>()> needed;   // Those that must live for it; empty: the awaited.
  Deadline deadline;
  // Whoever makes it ready rings. If not, `ready` is asked some thousand times a second.
  bool rings = true;
  std::string without_awaited;  // The error at the deadline, if no rank is awaited.
};

// Thread-safe.
class Watch {
 public:
  struct Options {
    // Called with a message, once per wait and rank, when a peer is stopped.
    std::function<void(const std::string&)> notice;
    // For tests: how long a sleeper, whose wait ended without a bell, waits for the bell. If it
    // does not ring by then, it counts as missed: see missed_bells(). 0: does not wait.
    std::chrono::milliseconds bell_patience{0};
  };
  Watch(int rank, Memory& memory, std::vector<Peer> peers, Options options);

  enum class Then {
    kBreak,  // This rank can no longer use the group; its peers are told why.
    kGoOn,   // Only this wait is over.
  };
  // Sleeps until ready, looking after the needed ranks. Throws PeerError if one of them ended,
  // left or failed, if the deadline passes, or after leave(). While an awaited rank says that it
  // saves a checkpoint, the deadline is put off, for 20 minutes at most; the wait then begins anew
  // with its whole time, unless the deadline had passed before the call. Returns the deadline that
  // held last: the caller's next wait in the same operation uses that one.
  Deadline wait(const Wait& wait, Then then);
  // The same without sleeping or a deadline: throws if the wait cannot succeed, else returns.
  void look(const Wait& wait, Then then);

  // The last rank that comes to a meeting finds all others there, even one that gave up waiting for
  // it. Throws PeerError if a rank gave up at this phase.
  void throw_if_given_up(std::uint64_t phase, const std::function<std::string()>& what);

  // Wakes the rank's threads in wait(), if there are any. The caller must have changed what they
  // wait for with a sequentially consistent store. Then either ring() sees the sleeper, or the
  // sleeper sees the change.
  void ring(int rank) const;

  // Breaks the group on this rank, for the caller's reason.
  enum class Reason : std::uint64_t { kEnded, kLate, kLeft, kMismatch, kAborted };
  void break_up(Reason reason, const std::string& text);
  // Throws what broke the group, if something did; UsageError in a fork.
  void throw_if_broken() const;
  // Throws UsageError in a fork of the rank, which is no member.
  void require_member() const;
  // This rank comes to no further meeting. Its own waits end with PeerError, and the others stop
  // waiting for it.
  void leave();

  [[nodiscard]] bool has_left(int rank) const;
  [[nodiscard]] std::string who(int rank) const { return roster_.who(rank); }
  [[nodiscard]] std::string self() const { return roster_.self(); }

  // What this rank is doing; errors of the others repeat it.
  void report(const Progress& progress);
  [[nodiscard]] Progress progress_of(int rank) const { return roster_.progress_of(rank); }

  // Lost wake-ups: waits that ended only because a sleeper looks again now and then. Counted if
  // Options::bell_patience is not 0.
  [[nodiscard]] std::uint64_t missed_bells() const { return missed_bells_; }

 private:
  struct Failure {
    Reason reason = Reason::kEnded;
    int culprit = 0;
    int signal = 0;
    int reporter = -1;  // The rank that found it, if it was not this one.
  };

  [[nodiscard]] std::vector<Failure> failures_among(const std::vector<int>& ranks) const;
  [[nodiscard]] std::string explain(const std::vector<Failure>& failures) const;
  [[nodiscard]] std::string explain(const Failure& failure) const;
  [[nodiscard]] std::string late_text(const Wait& wait, const std::vector<int>& ranks) const;
  bool sleep(const Wait& wait, const Deadline& deadline);
  void wait_for_bell(std::uint32_t heard);
  void ring_all() const;
  [[noreturn]] void fail(const Failure& failure, const std::string& text, Then then);
  void record(const Failure& failure, const std::string& text);

  int rank_;
  Memory& memory_;
  ForkGuard fork_guard_;  // A fork shares the memory, but is no member.
  Roster roster_;
  Options options_;
  std::atomic<std::uint64_t> missed_bells_{0};
  mutable std::mutex mutex_;
  std::optional<PeerError> broken_;  // Why; nothing while all is well.
};

}  // namespace lockstep::shm
