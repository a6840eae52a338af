#include "lockstep/comm/backends/hosts/failure_reason.h"

#include <functional>
#include <future>
#include <thread>

#include "lockstep/base/text.h"
#include "lockstep/comm/peer_error.h"
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

// The store is asked in a thread of its own, which may never come back.
template <class Answer>
Answer ask(const Answer& otherwise, const std::function<Answer()>& question) {
  auto answer = std::make_shared<std::promise<Answer>>();
  auto future = answer->get_future();
  std::thread([answer, otherwise, question] {
    try {
      answer->set_value(question());
    } catch (const std::exception&) {
      answer->set_value(otherwise);
    }
  }).detach();
  return future.wait_for(kStorePatience) == std::future_status::ready ? future.get() : otherwise;
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

PeerError first_reason(const c10::intrusive_ptr<c10d::Store>& store, const PeerError& reason) {
  const auto mine = to_bytes(reason);
  const auto first = ask<std::vector<std::uint8_t>>(
      mine, [store, mine] { return store->compareSet(kReasonKey, {}, mine); });
  return first.empty() ? reason : from_bytes(first);
}

bool has_reason(const c10::intrusive_ptr<c10d::Store>& store,
                const std::shared_ptr<std::atomic<bool>>& asked) {
  if (asked->exchange(true)) {
    return false;
  }
  return ask<bool>(false, [store, asked] {
    const bool given = store->check({kReasonKey});
    *asked = false;  // A store that has failed is not asked again.
    return given;
  });
}

}  // namespace lockstep::comm
