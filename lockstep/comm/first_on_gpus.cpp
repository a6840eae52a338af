// A group's first collective on GPUs. NCCL waits there for all ranks, without a limit, so ranks
// meet in the store before: one that does not come is named.
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/rank_info.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{20};  // At the store, which all ranks share.

std::string will_come(int rank) { return "on gpus/will come/" + std::to_string(rank); }
std::string has_come(int rank) { return "on gpus/has come/" + std::to_string(rank); }

void leave(const Group::State& state, const std::string& key) {
  state.store->set(key, std::vector<std::uint8_t>{1});
}

std::vector<int> ranks_without(const Group::State& state, std::string (*key)(int)) {
  std::vector<int> ranks;
  for (int rank = 0; rank < state.size; ++rank) {
    if (!state.store->check({key(rank)})) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

void announce_on_gpus(const Group::State& state) { leave(state, will_come(state.rank)); }

void meet_on_gpus(const Group& group, Group::State& state, const std::string& what,
                  std::chrono::milliseconds timeout) {
  if (state.met_on_gpus || state.size == 1 ||
      !group.can(Capability::kFirstWaitsForAll, at::kCUDA)) {
    return;
  }
  const auto all_came = [&] {
    if (ranks_without(state, has_come).empty()) {
      return true;
    }
    std::this_thread::sleep_for(kBetweenLooks);
    return false;
  };
  as_peer_error(what, [&] {
    leave(state, has_come(state.rank));
    if (!ranks_without(state, will_come).empty()) {
      return;  // A Python rank, or one that is still making its group.
    }
    try {
      group.wait_for("the first collective on GPUs", all_came, {.timeout = timeout});
    } catch (const PeerError& error) {
      const auto missing = ranks_without(state, has_come);
      if (error.cause() != PeerError::Cause::kLate || missing.empty()) {
        throw;
      }
      throw PeerError(what + ": timed out: " + list_ranks(missing) +
                          " did not begin a collective on GPUs within " + to_text(timeout) +
                          ", and NCCL needs all; see the logs of the others, or raise the timeout",
                      PeerError::Cause::kLate);
    }
  });
  state.met_on_gpus = true;
}

}  // namespace lockstep::comm
