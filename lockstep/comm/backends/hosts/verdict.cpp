#include "lockstep/comm/backends/hosts/verdict.h"

#include <algorithm>
#include <functional>
#include <future>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/net/message.h"

namespace lockstep::comm {
namespace {

constexpr const char* kVerdict = "verdict";
constexpr std::chrono::seconds kStorePatience{1};

// What Gloo says of its peers, as opposed to what goes wrong on this rank alone.
bool is_about_connections(const std::string& words) {
  constexpr const char* kWords[] = {"onnect", "imed out",    "imeout",       "closed",     "reset",
                                    "ocket",  "Broken pipe", "oute to host", "unreachable"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* word) { return contains(words, word); });
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

std::string reason_of(const std::exception& error, const HostMap& map, int rank,
                      const std::vector<std::string>& silent) {
  if (const auto* gone = dynamic_cast<const net::RankGone*>(&error)) {
    return "rank " + std::to_string(gone->rank()) + " on " +
           map.describe(map.host_of(gone->rank())) +
           (gone->how() == net::RankGone::How::kLeft     ? " left the group while others needed it"
            : gone->how() == net::RankGone::How::kClosed ? " ended or left the group, see its log"
            : silent.empty() ? " broke its connection: it ended or failed, see its log"
                             : " does not answer any more; is it down, or its network?") +
           " (rank " + std::to_string(rank) + " saw: " + error.what() + ")";
  }
  if (dynamic_cast<const PeerError*>(&error) != nullptr) {
    return error.what();  // From inside the host; it names the rank.
  }
  const std::string words = words_of(error);
  if (silent.empty() && !is_about_connections(words)) {
    return "rank " + std::to_string(rank) + " failed in it: " + words;
  }
  const auto named = map.other_host_named_in(words + " " + join(silent, " "));
  const bool one_other = map.hosts() == 2;
  const std::string who = named       ? map.describe(*named)
                          : one_other ? map.describe(1 - map.here())
                                      : "another host";
  const bool late = contains(words, "Timed out waiting") || contains(words, "peration timed out");
  const std::string what = late ? " has not arrived in time"
                           : !silent.empty() || contains(words, "imed out")
                               ? " does not answer any more; is it down, or its network?"
                               : " broke its connection: a rank there ended or failed, see its log";
  return who + what + " (rank " + std::to_string(rank) + " saw: " + words + ")";
}

std::string first_reason(const c10::intrusive_ptr<c10d::Store>& store, const std::string& reason) {
  const std::string first = ask<std::string>(reason, [store, reason] {
    const auto bytes = store->compareSet(kVerdict, std::vector<std::uint8_t>(),
                                         std::vector<std::uint8_t>(reason.begin(), reason.end()));
    return std::string(bytes.begin(), bytes.end());
  });
  return first.empty() ? reason : first;
}

bool has_reason(const c10::intrusive_ptr<c10d::Store>& store,
                const std::shared_ptr<std::atomic<bool>>& asked) {
  if (asked->exchange(true)) {
    return false;
  }
  return ask<bool>(false, [store, asked] {
    const bool given = store->check({kVerdict});
    *asked = false;  // A store that has failed is not asked again.
    return given;
  });
}

}  // namespace lockstep::comm
