// Before a first collective that would wait for all ranks without a limit, they meet in the store:
// one that does not come is named.
//
// How it ended is written there once, by the rank that knows first: the last one to come, or one
// that gives up. All ranks wait for that and obey it, however late they come.
#include "lockstep/base/error.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/rank_info.h"
#include "lockstep/comm/rendezvous/rank_keys.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{20};  // At the store, which all ranks share.
constexpr std::chrono::seconds kToDecide{30};           // Beyond the timeout.
constexpr const char* kOutcome = "first/outcome";
constexpr const char* kAllCame = "all came";

// One meeting, as one rank sees it.
class Meeting {
 public:
  Meeting(Group::State& state, const std::string& what, c10::DeviceType device,
          std::chrono::milliseconds timeout)
      : state_(state),
        what_(what),
        device_(c10::DeviceTypeName(device, /*lower_case=*/true)),
        arrivals_(keys_of_ranks("first/arrived", state.size)),
        deadline_(Deadline::in(timeout)) {}

  void attend() {
    const bool too_late = state_.store->check({kOutcome});
    state_.store->set(arrivals_[static_cast<std::size_t>(state_.rank)], "1");
    if (state_.store->check(arrivals_)) {
      decide(kAllCame);
    }
    try {
      state_.wait_for(
          what_, [this] { return is_decided(); }, Deadline::in(deadline_.total() + kToDecide));
    } catch (const PeerError& error) {  // Another rank has ended, for instance.
      try {
        decide("rank " + std::to_string(state_.rank) + " gave up: " + error.what());
      } catch (const std::exception&) {  // The store may have ended with it.
      }
      throw;
    }
    if (const auto outcome = state_.store->get_to_str(kOutcome); outcome != kAllCame) {
      state_.broken = true;
      throw PeerError(what_ + ": " + outcome + (too_late ? " (this rank came too late)" : "") +
                          "; see the logs of the others, or raise the timeout",
                      PeerError::Cause::kLate);
    }
  }

 private:
  // The first that is said counts.
  void decide(const std::string& outcome) { state_.store->compareSet(kOutcome, "", outcome); }

  bool is_decided() {
    if (Clock::now() < next_look_) {
      return false;
    }
    next_look_ = Clock::now() + kBetweenLooks;
    if (state_.store->check({kOutcome})) {
      return true;
    }
    if (!deadline_.passed()) {
      return false;
    }
    const auto missing = ranks_without(*state_.store, arrivals_);
    decide("timed out: " + list_ranks(missing) + " did not begin the first collective on " +
           device_ + " within " + to_text(deadline_.total()) + ", and it needs all ranks");
    return true;
  }

  Group::State& state_;
  const std::string& what_;
  const std::string device_;
  const std::vector<std::string> arrivals_;
  const Deadline deadline_;
  Clock::time_point next_look_;
};

}  // namespace

void meet_before_first(Group::State& state, const std::string& what, c10::DeviceType device,
                       std::chrono::milliseconds timeout) {
  if (!state.first_is_due) {
    return;
  }
  const auto known = state.capabilities.find(device);
  if (known == state.capabilities.end() || !known->second.contains(Capability::kFirstWaitsForAll)) {
    return;
  }
  as_peer_error(what, [&] {
    // Else a Python rank takes part, or one that is still making its group where none waits for
    // all.
    if (are_all_there(*state.store, state.size)) {
      Meeting(state, what, device, timeout).attend();
    }
  });
  state.first_is_due = false;
}

}  // namespace lockstep::comm
