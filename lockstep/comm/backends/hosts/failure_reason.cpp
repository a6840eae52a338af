#include "lockstep/comm/backends/hosts/failure_reason.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

#include "lockstep/base/text/text.h"
#include "lockstep/comm/library_errors.h"
#include "lockstep/net/message.h"

namespace lockstep::comm {
namespace {

constexpr const char* kReasonKey = "failure_reason";
constexpr std::chrono::seconds kStorePatience{1};

// In the store: the cause's letter, then the text.
constexpr char kLate = 'L';
constexpr char kGone = 'G';

std::vector<std::uint8_t> to_bytes(const PeerError& reason) {
  const std::string text =
      (reason.cause() == PeerError::Cause::kLate ? kLate : kGone) + std::string(reason.what());
  return {text.begin(), text.end()};
}

PeerError from_bytes(const std::vector<std::uint8_t>& bytes) {
  using Cause = PeerError::Cause;
  return PeerError(std::string(bytes.begin() + 1, bytes.end()),
                   bytes.front() == kLate ? Cause::kLate : Cause::kGone);
}

std::string names_of(const HostMap& map, const std::vector<int>& hosts, const char* between) {
  std::vector<std::string> texts;
  texts.reserve(hosts.size());
  for (const int host : hosts) {
    texts.push_back(map.describe(host));
  }
  return join(texts, between);
}

std::string late_words(const HostMap& map, const std::vector<int>& late) {
  return late.empty() ? "all hosts have begun it, but are not done in time; raise the timeout if "
                        "they are only slow"
                      : names_of(map, late, ", ") + (late.size() == 1 ? " has" : " have") +
                            " not arrived in time";
}

std::vector<int> others_of(const HostMap& map) {
  std::vector<int> others;
  for (int host = 0; host < map.hosts(); ++host) {
    if (host != map.here()) {
      others.push_back(host);
    }
  }
  return others;
}

}  // namespace

PeerError reason_of(const std::exception& error, const HostMap& map, const Witness& witness) {
  const auto& silent = witness.silent;
  const std::string rank = "rank " + std::to_string(witness.rank);
  const std::string seen = " (" + rank + " saw: " + words_of(error) + ")";
  if (const auto* gone = dynamic_cast<const net::RankGone*>(&error)) {
    return PeerError(
        "rank " + std::to_string(gone->rank()) + " on " + map.describe(map.host_of(gone->rank())) +
        (gone->how() == net::RankGone::How::kLeft     ? " left the group while others needed it"
         : gone->how() == net::RankGone::How::kClosed ? " ended or left the group, see its log"
         : silent.empty() ? " broke its connection: it ended or failed, see its log"
                          : " does not answer any more; is it down, or its network?") +
        seen);
  }
  if (const auto* inside = dynamic_cast<const PeerError*>(&error)) {
    // From inside the host; it names the rank. That may itself wait for a host that is late.
    return witness.late.empty()
               ? *inside
               : PeerError(late_words(map, witness.late) + seen, PeerError::Cause::kLate);
  }
  const Fault fault = fault_of(error);
  if (silent.empty() && fault == Fault::kHere) {
    return PeerError(rank + " failed in it: " + words_of(error));
  }
  const auto named = map.other_host_named_in(words_of(error) + " " + join(silent, " "));
  if (fault == Fault::kLate) {
    const auto late = named && witness.late.empty() ? std::vector<int>{*named} : witness.late;
    return PeerError(late_words(map, late) + seen, PeerError::Cause::kLate);
  }
  const std::string who = named ? map.describe(*named) : names_of(map, others_of(map), " or ");
  return PeerError(who +
                   (!silent.empty() || fault == Fault::kSilent
                        ? " does not answer any more; is it down, or its network?"
                        : " broke its connection: a rank there ended or failed, see its log") +
                   seen);
}

struct SharedReason::State {
  explicit State(c10::intrusive_ptr<c10d::Store> one) : store(std::move(one)) {}

  const c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Question> questions;  // The front is being asked.
  Deadline answer_by = Deadline::in({});
  bool stop = false;
  std::atomic<bool> is_asked{false};  // Whether a reason is given; the answer is not there yet.
};

SharedReason::SharedReason(c10::intrusive_ptr<c10d::Store> store)
    : state_(std::make_shared<State>(std::move(store))) {}

SharedReason::~SharedReason() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  const bool is_done = state_->changed.wait_until(lock, state_->answer_by.at(),
                                                  [&] { return state_->questions.empty(); });
  lock.unlock();
  if (!thread_.joinable()) {
    return;
  }
  if (is_done) {
    thread_.join();
  } else {
    // It sits in a call of the store that has no time limit and that nobody can interrupt: the
    // socket is the store's own, and others may use it. It touches nothing but the state and the
    // store, which it keeps, and ends when the store answers or fails.
    thread_.detach();
  }
}

void SharedReason::post(Question question, Deadline deadline) {
  const std::lock_guard lock(state_->mutex);
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] { run(*state); });
  }
  state_->questions.push_back(std::move(question));
  state_->answer_by = deadline;
  state_->changed.notify_all();
}

void SharedReason::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return state.stop || !state.questions.empty(); });
    if (state.questions.empty()) {
      return;
    }
    const Question question = state.questions.front();
    lock.unlock();
    question(*state.store);
    lock.lock();
    state.questions.pop_front();
    state.changed.notify_all();
  }
}

template <class Answer>
Answer SharedReason::ask(const Answer& otherwise,
                         const std::function<Answer(c10d::Store&)>& question) {
  const auto deadline = Deadline::in(kStorePatience);
  const auto answer = std::make_shared<std::promise<Answer>>();
  auto future = answer->get_future();
  post(
      [answer, otherwise, question](c10d::Store& store) {
        try {
          answer->set_value(question(store));
        } catch (const std::exception&) {
          answer->set_value(otherwise);
        }
      },
      deadline);
  return future.wait_until(deadline.at()) == std::future_status::ready ? future.get() : otherwise;
}

PeerError SharedReason::first(const PeerError& reason) {
  const auto mine = to_bytes(reason);
  const auto first = ask<std::vector<std::uint8_t>>(
      mine, [mine](c10d::Store& store) { return store.compareSet(kReasonKey, {}, mine); });
  return first.empty() ? reason : from_bytes(first);
}

bool SharedReason::is_given() {
  if (state_->is_asked.exchange(true)) {
    return false;
  }
  return ask<bool>(false, [state = state_.get()](c10d::Store& store) {
    const bool given = store.check({kReasonKey});
    state->is_asked = false;  // Not if it throws: a store that has failed is not asked again.
    return given;
  });
}

}  // namespace lockstep::comm
