#include "lockstep/shm/peers/watch.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/ask.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/text.h"
#include "lockstep/shm/peers/futex.h"
#include "lockstep/shm/peers/stopped_ranks.h"
#include "lockstep/shm/segments/word_text.h"

namespace lockstep::shm {
namespace {

using Clock = Deadline::Clock;

// How long a death can go unnoticed, and how often a waiting rank wakes for nothing.
constexpr std::chrono::milliseconds kPoll{50};
// How much longer others wait for a rank that saves. There is a limit because a rank whose disk
// hangs says for ever that it saves.
constexpr std::chrono::minutes kLongestSave{20};

// The deadline that holds even while an awaited rank saves.
Deadline longest_after(const Deadline& deadline) {
  using std::chrono::milliseconds;
  if (deadline.passed()) {
    return Deadline::in(milliseconds(0));
  }
  return Deadline::in(std::min<milliseconds>(deadline.total(), std::chrono::years(1)) +
                      kLongestSave);
}

PeerError error_of(Watch::Reason reason, const std::string& text) {
  using Cause = PeerError::Cause;
  return PeerError(text, reason == Watch::Reason::kLate ? Cause::kLate : Cause::kGone);
}

}  // namespace

Watch::Watch(int rank, Memory& memory, std::vector<Peer> peers, Options options)
    : rank_(rank),
      memory_(memory),
      roster_(rank, memory, std::move(peers)),
      options_(std::move(options)) {}

Deadline Watch::wait(const Wait& wait, Then then) {
  StoppedRanks stopped([this](int rank) { return roster_.is_stopped(rank); });
  Deadline deadline = wait.deadline;
  const Deadline longest = longest_after(deadline);
  bool waits_longer = false;
  while (true) {
    throw_if_broken();
    if (sleep(wait, deadline)) {
      return deadline;
    }
    look(wait, then);
    if (wait.ready()) {
      return deadline;
    }
    const auto awaited = wait.awaited();
    for (const int rank : stopped.find(awaited)) {
      if (options_.notice) {
        options_.notice(wait.what() + ": " + who(rank) + " is stopped (" +
                        roster_.last_call_of(rank) + "); waiting until it goes on, at most " +
                        to_text(deadline.remaining()));
      }
    }
    if (const auto saving = roster_.saving_among(awaited); saving && !longest.passed()) {
      deadline = Deadline::in(wait.deadline.total());
      if (wait.deadline.passed() && !std::exchange(waits_longer, true) && options_.notice) {
        options_.notice(wait.what() + ": " + *saving + "; waiting longer than the timeout of " +
                        to_text(wait.deadline.total()));
      }
    }
    if (deadline.passed()) {
      fail({.reason = Reason::kLate, .culprit = awaited.empty() ? rank_ : awaited.front()},
           wait.what() + ": timed out: " + late_text(wait, awaited), then);
    }
  }
}

std::string Watch::late_text(const Wait& wait, const std::vector<int>& ranks) const {
  const std::string time = " after " + to_text(wait.deadline.total());
  if (ranks.empty()) {
    return (wait.without_awaited.empty() ? "no other rank is awaited, but this call is not done"
                                         : wait.without_awaited) +
           time + "; see the logs of all ranks, or raise the timeout if they are only slow";
  }
  std::vector<std::string> late;
  for (const int rank : ranks) {
    late.push_back(who(rank) + " (" + (roster_.is_stopped(rank) ? "stopped, " : "") +
                   roster_.last_call_of(rank) + ")");
  }
  const bool several = late.size() > 1;
  return join(late, ", ") +
         (wait.rings ? several ? " have not arrived" : " has not arrived"
          : several  ? " are behind"
                     : " is behind") +
         time + "; see the log there, or raise the timeout if it is only slow";
}

void Watch::look(const Wait& wait, Then then) {
  throw_if_broken();
  const auto& needed = wait.needed ? wait.needed : wait.awaited;
  auto failures = failures_among(needed());
  if (failures.empty()) {
    return;
  }
  // One that is not needed any more may have left since it was asked for.
  const auto still_needed = needed();
  std::erase_if(failures, [&](const Failure& failure) {
    const int rank = failure.reporter < 0 ? failure.culprit : failure.reporter;
    return std::ranges::find(still_needed, rank) == still_needed.end();
  });
  // A rank may have come to this meeting and then left or ended: that is no failure of this wait.
  if (!failures.empty() && !wait.ready()) {
    fail(failures.front(), wait.what() + ": " + explain(failures), then);
  }
}

void Watch::throw_if_given_up(std::uint64_t phase, const std::function<std::string()>& what) {
  constexpr auto kFailed = static_cast<std::uint64_t>(Standing::kFailed);
  for (int rank = 0; rank < memory_.layout().size; ++rank) {
    const Control& control = memory_.control(rank);
    if (control.fate.standing.load() != kFailed || control.phase.load() != phase) {
      continue;
    }
    // A rank fails for one of these reasons only while it waits, so that was for this meeting.
    const auto failures = failures_among({rank});
    const auto reason = failures.empty() ? Reason::kAborted : failures.front().reason;
    if (reason == Reason::kLate || reason == Reason::kEnded || reason == Reason::kLeft) {
      fail(failures.front(), what() + ": " + explain(failures), Then::kBreak);
    }
  }
}

// The sleeper says that it sleeps, then looks once more; the one that rings changes the word, then
// looks for sleepers. In the one order of all sequentially consistent operations one of the two
// comes first, so no bell is missed.
bool Watch::sleep(const Wait& wait, const Deadline& deadline) {
  if (!wait.rings) {
    return ask_for(std::min(kPoll, deadline.remaining()), wait.ready);
  }
  Control& own = memory_.control(rank_);
  own.sleepers.fetch_add(1);
  const auto heard = own.bell.load();
  bool ready = wait.ready();
  if (!ready) {
    futex_wait(own.bell, heard, std::min(kPoll, deadline.remaining()));
    ready = wait.ready();
    if (ready && own.bell.load() == heard && options_.bell_patience.count() > 0) {
      wait_for_bell(heard);
    }
  }
  own.sleepers.fetch_sub(1);
  return ready;
}

// The rank that made the wait ready sees this sleeper afterwards and rings, sooner or later: it may
// have lost its core in between. A bell that does not ring at all was lost.
void Watch::wait_for_bell(std::uint32_t heard) {
  Control& own = memory_.control(rank_);
  const auto deadline = Deadline::in(options_.bell_patience);
  while (own.bell.load() == heard && !deadline.passed()) {
    futex_wait(own.bell, heard, deadline.remaining());
  }
  missed_bells_ += own.bell.load() == heard ? 1 : 0;
}

void Watch::ring(int rank) const {
  Control& other = memory_.control(rank);
  if (other.sleepers.load() != 0) {
    other.bell.fetch_add(1);
    futex_wake(other.bell);
  }
}

std::vector<Watch::Failure> Watch::failures_among(const std::vector<int>& ranks) const {
  std::vector<Failure> found;
  roster_.look();
  for (const int rank : ranks) {
    const Fate& fate = memory_.control(rank).fate;
    const auto standing = static_cast<Standing>(fate.standing.load());
    const auto culprit = fate.culprit.load();
    if (standing == Standing::kFailed &&
        culprit < static_cast<std::uint64_t>(memory_.layout().size)) {
      found.push_back({.reason = static_cast<Reason>(fate.reason.load()),
                       .culprit = static_cast<int>(culprit),
                       .signal = static_cast<int>(fate.signal.load() & 0x7f),
                       .reporter = rank});
      continue;
    }
    const auto signal = roster_.ended_by(rank);
    if (standing == Standing::kLeft) {
      found.push_back({.reason = Reason::kLeft, .culprit = rank});
    } else if (signal) {
      found.push_back({.reason = Reason::kEnded, .culprit = rank, .signal = *signal});
    }
  }
  // What this rank saw itself says more than another rank's report, and a death more than the rest.
  std::stable_sort(found.begin(), found.end(), [](const Failure& a, const Failure& b) {
    return std::pair(a.reason, a.reporter) < std::pair(b.reason, b.reporter);
  });
  return found;
}

std::string Watch::explain(const std::vector<Failure>& failures) const {
  std::string text = explain(failures.front());
  std::vector<int> named{failures.front().culprit};
  for (const auto& failure : failures) {
    if (failure.reason == Reason::kEnded &&
        std::find(named.begin(), named.end(), failure.culprit) == named.end()) {
      text += "; also " + explain(failure);
      named.push_back(failure.culprit);
    }
  }
  return text + "; see the log there, then form a new group or start again";
}

std::string Watch::explain(const Failure& failure) const {
  const std::string culprit = who(failure.culprit);
  const std::string reporter = failure.reporter < 0 ? "" : who(failure.reporter);
  switch (failure.reason) {
    case Reason::kEnded:
      return culprit +
             (failure.signal != 0 ? " was killed by " + signal_name(failure.signal)
                                  : std::string(" ended")) +
             " (" + roster_.last_call_of(failure.culprit) + ")" +
             (reporter.empty() ? "" : ", as " + reporter + " found");
    case Reason::kLate:
      return reporter + " gave up waiting" +
             (failure.culprit == failure.reporter
                  ? " (" + roster_.last_call_of(failure.reporter) + ")"
              : failure.culprit == rank_
                  ? " for this rank"
                  : " for " + culprit + " (" + roster_.last_call_of(failure.culprit) + ")");
    case Reason::kLeft:
      return culprit + " left the group (" + roster_.last_call_of(failure.culprit) + ")" +
             (reporter.empty() ? "" : ", as " + reporter + " found");
    case Reason::kMismatch:
      return reporter + " found that the ranks' calls do not match";
    case Reason::kAborted: {
      const std::string words = read_text(memory_.control(failure.culprit).fate.text);
      return culprit + " aborted the group" +
             (words.empty() ? " (" + roster_.last_call_of(failure.culprit) + ")" : ": " + words);
    }
  }
  return reporter + " failed";  // A reason that this version does not know.
}

void Watch::report(const Progress& progress) {
  if (fork_guard_.in_owner()) {
    memory_.control(rank_).progress.store(pack_progress(progress), std::memory_order_relaxed);
  }
}

void Watch::fail(const Failure& failure, const std::string& text, Then then) {
  if (then == Then::kBreak) {
    record(failure, text);
    throw_if_broken();
  }
  throw error_of(failure.reason, text);
}

void Watch::break_up(Reason reason, const std::string& text) {
  record({.reason = reason, .culprit = rank_}, text);
}

void Watch::record(const Failure& failure, const std::string& text) {
  if (!fork_guard_.in_owner()) {
    return;
  }
  memory_.arena(rank_).freeze();
  {
    const std::lock_guard lock(mutex_);
    if (broken_) {
      return;
    }
    broken_ = error_of(failure.reason, text);
    Fate& fate = memory_.control(rank_).fate;
    fate.reason.store(static_cast<std::uint64_t>(failure.reason));
    fate.culprit.store(static_cast<std::uint64_t>(failure.culprit));
    fate.signal.store(static_cast<std::uint64_t>(failure.signal));
    if (failure.reason == Reason::kAborted) {
      write_text(fate.text, text);
    }
    fate.standing.store(static_cast<std::uint64_t>(Standing::kFailed));
  }
  ring_all();
}

void Watch::require_member() const {
  if (!fork_guard_.in_owner()) {
    throw UsageError(self() +
                     ": this process is a fork of the rank and no member of its groups; form one "
                     "after fork(), or leave it to the parent");
  }
}

void Watch::throw_if_broken() const {
  require_member();
  const std::lock_guard lock(mutex_);
  if (broken_) {
    throw PeerError(*broken_);
  }
}

void Watch::leave() {
  if (!fork_guard_.in_owner()) {
    return;
  }
  memory_.arena(rank_).freeze();
  {
    const std::lock_guard lock(mutex_);
    if (broken_) {
      return;  // The others know more already.
    }
    broken_.emplace(self() + " has left the group; form a new one");
    memory_.control(rank_).fate.standing.store(static_cast<std::uint64_t>(Standing::kLeft));
  }
  ring_all();
}

void Watch::ring_all() const {
  for (int rank = 0; rank < memory_.layout().size; ++rank) {
    ring(rank);  // Its own threads too.
  }
}

bool Watch::has_left(int rank) const {
  return memory_.control(rank).fate.standing.load() == static_cast<std::uint64_t>(Standing::kLeft);
}

}  // namespace lockstep::shm
