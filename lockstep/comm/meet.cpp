// Before a first collective that would wait for all ranks without a limit, they meet in the store:
// one that does not come is named.
//
// The first rank that knows how it ended writes that there, once, and all obey: a rank that comes
// when others have given up must not go on alone.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/rank_info.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{20};  // At the store, which all ranks share.
constexpr const char* kOutcome = "first/outcome";

std::string arrival_key(int rank) { return "first/arrived/" + std::to_string(rank); }

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::vector<int> missing_ranks(const Group::State& state) {
  std::vector<int> ranks;
  for (int rank = 0; rank < state.size; ++rank) {
    if (!state.store->check({arrival_key(rank)})) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Those that did not come, as the first rank saw it that knew; none if all had.
std::vector<int> agree_on(const Group::State& state, const std::vector<int>& missing) {
  std::string first;
  try {
    const auto found =
        state.store->compareSet(kOutcome, {}, bytes_of("no " + join_numbers(missing)));
    first = std::string(found.begin() + 3, found.end());
  } catch (const std::exception&) {  // Not every store can, and this one may be gone.
    return missing;
  }
  std::vector<int> ranks;
  for (const auto& text : split(first, ',')) {
    if (const auto rank = parse_int(trim(text))) {
      ranks.push_back(static_cast<int>(*rank));
    }
  }
  return ranks;
}

[[noreturn]] void fail(const Group::State& state, const std::string& what, c10::DeviceType device,
                       const std::vector<int>& missing, const std::string& more) {
  const bool is_late = std::find(missing.begin(), missing.end(), state.rank) != missing.end();
  throw PeerError(
      what + ": timed out: " + list_ranks(missing) + " did not begin the first collective on " +
          c10::DeviceTypeName(device, /*lower_case=*/true) + " in time" +
          (is_late ? " (this rank came too late)" : "") +
          ", and it needs all ranks; see the logs of the others, or raise the timeout" + more,
      PeerError::Cause::kLate);
}

void wait_for_all(Group::State& state, const std::string& what, c10::DeviceType device,
                  std::chrono::milliseconds timeout) {
  std::vector<std::string> arrivals;
  for (int rank = 0; rank < state.size; ++rank) {
    arrivals.push_back(arrival_key(rank));
  }
  auto next_look = Clock::now();
  const auto all_came = [&] {
    if (Clock::now() < next_look) {
      return false;
    }
    next_look = Clock::now() + kBetweenLooks;
    return state.store->check(arrivals);
  };
  try {
    state.wait_for(what, all_came, Deadline::in(timeout));
  } catch (const PeerError& error) {
    const auto missing = missing_ranks(state);
    if (error.cause() != PeerError::Cause::kLate || missing.empty()) {
      throw;
    }
    fail(state, what, device, agree_on(state, missing), std::string(" [") + error.what() + "]");
  }
  if (const auto missing = agree_on(state, {}); !missing.empty()) {
    state.broken = true;
    fail(state, what, device, missing, "");
  }
}

}  // namespace

void meet(Group::State& state, const std::string& what, c10::DeviceType device,
          std::chrono::milliseconds timeout) {
  if (!state.first_is_due) {
    return;
  }
  const auto known = state.capabilities.find(device);
  if (known == state.capabilities.end() || !known->second.contains(Capability::kFirstWaitsForAll)) {
    return;
  }
  as_peer_error(what, [&] {
    state.store->set(arrival_key(state.rank), bytes_of("1"));
    // Else a Python rank takes part, or one that is still making its group where none waits for
    // all.
    if (ranks_not_there(*state.store, state.size).empty()) {
      wait_for_all(state, what, device, timeout);
    }
  });
  state.first_is_due = false;
}

}  // namespace lockstep::comm
