// Waiting for other ranks, and finding out why they do not come.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fork_guard.h"
#include "lockstep/shm/memory.h"
#include "lockstep/shm/progress.h"
#include "lockstep/shm/roster.h"

namespace lockstep::shm {

struct Wait {
  std::function<std::string()> what;          // Operation and rank, how errors begin.
  std::function<bool()> ready;                // Sequentially consistent loads: see ring().
  std::function<std::vector<int>()> awaited;  // Ranks that it waits for.
  std::function<std::vector<int>()> needed;   // Those that must live for it; empty: the awaited.
  Deadline deadline;
};

// Thread-safe.
class Watch {
 public:
  struct Options {
    // Told, once per wait and rank, of a peer that is stopped.
    std::function<void(const std::string&)> notice;
    // For tests. A sleeper whose wait is over although no bell rang waits so long for the bell, and
    // counts it as missed if it does not ring: see missed_bells(). 0: it does not.
    std::chrono::milliseconds bell_patience{0};
  };
  Watch(int rank, Memory& memory, std::vector<Peer> peers, Options options);

  enum class Then {
    kBreak,  // The group is of no use to this rank any more; its peers are told why.
    kGoOn,   // This wait alone is over.
  };
  // Sleeps until ready, looking after the needed ranks. Throws PeerError if one of them ended,
  // left or failed, if the deadline passes, or after leave().
  void wait(const Wait& wait, Then then);
  // The same without sleeping or a deadline: throws if the wait is in vain, else returns.
  void look(const Wait& wait, Then then);

  // The one that came last to a meeting finds all others there, also one that gave up waiting for
  // it. Throws PeerError if a rank did so at this phase.
  void throw_if_given_up(std::uint64_t phase, const std::function<std::string()>& what);

  // Wakes the rank's threads in wait(), if there are any. The caller has changed what they wait for
  // by a sequentially consistent store: then either this sees the sleeper or the sleeper sees that.
  void ring(int rank) const;

  // Breaks the group on this rank for a reason of the caller's.
  enum class Reason : std::uint64_t { kEnded, kLate, kLeft, kMismatch, kAborted };
  void break_up(Reason reason, const std::string& text);
  // Throws what broke the group, if something did; UsageError in a fork.
  void throw_if_broken() const;
  // Throws UsageError in a fork of the rank, which is no member.
  void require_member() const;
  // This rank comes to no further meeting: its own waits end with PeerError, the others need not
  // wait for it.
  void leave();

  [[nodiscard]] bool has_left(int rank) const;
  [[nodiscard]] std::string who(int rank) const { return roster_.who(rank); }
  [[nodiscard]] std::string self() const { return roster_.self(); }

  // What this rank is doing; errors of the others repeat it.
  void report(const Progress& progress);
  [[nodiscard]] Progress progress_of(int rank) const { return roster_.progress_of(rank); }

  // Waits that ended only because they look again every now and then: lost wake-ups. Counted where
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
  [[nodiscard]] std::string late_text(const std::vector<int>& ranks) const;
  bool sleep(const Wait& wait);
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
  std::string broken_;  // Why; empty while all is well.
};

}  // namespace lockstep::shm
