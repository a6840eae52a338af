#include "lockstep/comm/backends/hosts/failure_reason.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

#include "lockstep/base/text.h"
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

}  // namespace

PeerError reason_of(const std::exception& error, const HostMap& map, int rank,
                    const std::vector<std::string>& silent) {
  const std::string seen = " (rank " + std::to_string(rank) + " saw: " + words_of(error) + ")";
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
    return *inside;  // From inside the host; it names the rank.
  }
  const Fault fault = fault_of(error);
  if (silent.empty() && fault == Fault::kHere) {
    return PeerError("rank " + std::to_string(rank) + " failed in it: " + words_of(error));
  }
  const auto named = map.other_host_named_in(words_of(error) + " " + join(silent, " "));
  const bool one_other = map.hosts() == 2;
  const std::string who = named       ? map.describe(*named)
                          : one_other ? map.describe(1 - map.here())
                                      : "another host";
  if (fault == Fault::kLate) {
    return PeerError(who + " has not arrived in time" + seen, PeerError::Cause::kLate);
  }
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

void SharedReason::give_to_thread(Question question, Deadline deadline) {
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
  give_to_thread(
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
