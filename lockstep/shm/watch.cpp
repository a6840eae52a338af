#include "lockstep/shm/watch.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/process_tree.h"
#include "lockstep/base/text.h"
#include "lockstep/shm/call.h"
#include "lockstep/shm/futex.h"

namespace lockstep::shm {
namespace {

using Clock = Deadline::Clock;

// How long a death can go unnoticed, and how often a waiting rank wakes for nothing.
constexpr std::chrono::milliseconds kLook{50};
// A process that is stopped for a moment (a debugger, a job control key pressed twice) is no news.
constexpr std::chrono::milliseconds kStoppedForGood{1000};

constexpr std::size_t kWordChars = sizeof(std::uint64_t);

template <std::size_t kWords>
void write_text(Word (&words)[kWords], const std::string& text) {
  for (std::size_t i = 0; i < kWords && i * kWordChars < text.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i * kWordChars,
                std::min(kWordChars, text.size() - i * kWordChars));
    words[i].store(word, std::memory_order_relaxed);
  }
}

// Whatever a peer wrote there, it becomes a line of text.
template <std::size_t kWords>
std::string read_text(const Word (&words)[kWords]) {
  std::string text(kWords * kWordChars, '\0');
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * kWordChars, &word, kWordChars);
  }
  text.resize(std::min(text.find('\0'), text.size()));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace

// What one wait has seen of its peers so far.
class Watch::Patience {
 public:
  // True once, when the rank has been stopped for long enough.
  bool is_news(int rank, bool stopped) {
    if (!stopped) {
      since_.erase(rank);
      return false;
    }
    const auto [entry, is_new] = since_.try_emplace(rank, Clock::now());
    if (entry->second == Clock::time_point::max() ||
        Clock::now() - entry->second < kStoppedForGood) {
      return false;
    }
    entry->second = Clock::time_point::max();
    return true;
  }

 private:
  std::map<int, Clock::time_point> since_;
};

Watch::Watch(int rank, Memory& memory, std::vector<Peer> peers,
             std::function<void(const std::string&)> notice)
    : rank_(rank), memory_(memory), peers_(std::move(peers)), notice_(std::move(notice)) {}

void Watch::wait(const Wait& wait, Then then) {
  Patience patience;
  while (true) {
    throw_if_broken();
    if (sleep(wait)) {
      return;
    }
    look(wait, then);
    if (wait.ready()) {
      return;
    }
    const auto awaited = wait.awaited();
    std::vector<std::string> late;
    for (const int rank : awaited) {
      const bool stopped =
          state_of(peers_[static_cast<std::size_t>(rank)].process).life == Life::kStopped;
      if (patience.is_news(rank, stopped) && notice_) {
        notice_(wait.what() + ": " + who(rank) + " is stopped (" + last_call_of(rank) +
                "); waiting until it goes on, at most " + to_text(wait.deadline.remaining()));
      }
      late.push_back(who(rank) + " (" + (stopped ? "stopped, " : "") + last_call_of(rank) + ")");
    }
    if (wait.deadline.passed()) {
      const std::string list = late.empty() ? "nobody else is there, who" : join(late, ", ");
      fail({.reason = Reason::kLate, .culprit = awaited.empty() ? rank_ : awaited.front()},
           wait.what() + ": timed out: " + list + (late.size() > 1 ? " have" : " has") +
               " not arrived after " + to_text(wait.deadline.total()) +
               "; see the log there, or raise the timeout if it is only slow",
           then);
    }
  }
}

void Watch::look(const Wait& wait, Then then) {
  throw_if_broken();
  const auto failures = failures_among(wait.needed ? wait.needed() : wait.awaited());
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
bool Watch::sleep(const Wait& wait) const {
  Control& own = memory_.control(rank_);
  own.sleepers.fetch_add(1);
  const auto heard = own.bell.load();
  bool ready = wait.ready();
  if (!ready) {
    futex_wait(own.bell, heard, std::min(kLook, wait.deadline.remaining()));
    ready = wait.ready();
  }
  own.sleepers.fetch_sub(1);
  return ready;
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
  for (const int rank : ranks) {
    const Fate& fate = memory_.control(rank).fate;
    const auto standing = static_cast<Standing>(fate.standing.load());
    const auto culprit = fate.culprit.load();
    if (standing == Standing::kFailed && culprit < peers_.size()) {
      found.push_back({.reason = static_cast<Reason>(fate.reason.load()),
                       .culprit = static_cast<int>(culprit),
                       .signal = static_cast<int>(fate.signal.load() & 0x7f),
                       .reporter = rank});
      continue;
    }
    const auto state = state_of(peers_[static_cast<std::size_t>(rank)].process);
    if (standing == Standing::kLeft) {
      found.push_back({.reason = Reason::kLeft, .culprit = rank});
    } else if (state.life == Life::kEnded) {
      found.push_back({.reason = Reason::kEnded, .culprit = rank, .signal = state.signal});
    }
  }
  // What this rank saw by itself tells more than what another says, and a death more than the rest.
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
             " (" + last_call_of(failure.culprit) + ")" +
             (reporter.empty() ? "" : ", as " + reporter + " found");
    case Reason::kLate:
      return reporter + " gave up waiting for " +
             (failure.culprit == rank_ ? "this rank"
                                       : culprit + " (" + last_call_of(failure.culprit) + ")");
    case Reason::kLeft:
      return culprit + " left the group (" + last_call_of(failure.culprit) + ")" +
             (reporter.empty() ? "" : ", as " + reporter + " found");
    case Reason::kMismatch:
      return reporter + " found that the ranks' calls do not match";
    case Reason::kAborted: {
      const std::string words = read_text(memory_.control(failure.culprit).fate.text);
      return culprit + " aborted the group" +
             (words.empty() ? " (" + last_call_of(failure.culprit) + ")" : ": " + words);
    }
  }
  return reporter + " failed";  // A reason that this version does not know.
}

std::string Watch::last_call_of(int rank) const {
  const Control& control = memory_.control(rank);
  const Announcement* latest = &control.announcements[0];
  if (control.announcements[1].sequence.load(std::memory_order_relaxed) >
      latest->sequence.load(std::memory_order_relaxed)) {
    latest = &control.announcements[1];
  }
  const auto sequence = latest->sequence.load(std::memory_order_relaxed);
  const std::string doing = text_of(progress_of(rank));
  return (doing.empty() ? "" : doing + ", ") +
         (sequence == 0 ? "it has called no collective yet"
                        : "its last call: " + Call::read_from(*latest).text(sequence));
}

void Watch::report(const Progress& progress) {
  if (fork_guard_.in_owner()) {
    memory_.control(rank_).progress.store(pack(progress), std::memory_order_relaxed);
  }
}

Progress Watch::progress_of(int rank) const {
  return unpack(memory_.control(rank).progress.load(std::memory_order_relaxed));
}

void Watch::fail(const Failure& failure, const std::string& text, Then then) {
  if (then == Then::kBreak) {
    record(failure, text);
    throw_if_broken();
  }
  throw PeerError(text);
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
    if (!broken_.empty()) {
      return;
    }
    broken_ = text;
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
  if (!broken_.empty()) {
    throw PeerError(broken_);
  }
}

void Watch::leave() {
  if (!fork_guard_.in_owner()) {
    return;
  }
  memory_.arena(rank_).freeze();
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) {
      return;  // The others know more already.
    }
    broken_ = self() + " has left the group; form a new one";
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

std::string Watch::self() const {
  const int number = peers_[static_cast<std::size_t>(rank_)].number;
  const std::string size = std::to_string(memory_.layout().size);
  return number < 0 ? "rank " + std::to_string(rank_) + " of " + size
                    : "rank " + std::to_string(number) + ", one of " + size + " on its host";
}

std::string Watch::who(int rank) const {
  const auto& peer = peers_[static_cast<std::size_t>(rank)];
  return "rank " + std::to_string(peer.number < 0 ? rank : peer.number) + " (pid " +
         std::to_string(peer.process.pid) + " on " + peer.host + ")";
}

}  // namespace lockstep::shm
