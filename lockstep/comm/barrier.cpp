// A barrier that can say who did not come.
//
// The ranks wait in the backend, so that a Python rank can take part. Each leaves its
// number of barriers in the store first; when the wait fails, the first rank to notice
// writes there, once, who is missing, and every rank reports that.
#include <algorithm>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string to_string(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }
std::string arrival_key(int rank) { return "barrier/" + std::to_string(rank); }

// Store::set() does not wait: an arrival may still be on its way when the wait fails at once.
constexpr std::chrono::milliseconds kOnTheWay{100};

std::vector<int> without_arrival(Group::State& state, std::uint64_t number) {
  std::vector<int> missing;
  for (int rank = 0; rank < state.size; ++rank) {
    const bool known = state.store->check({arrival_key(rank)});
    const auto last = known ? parse_int(to_string(state.store->get(arrival_key(rank)))) : 0;
    if (static_cast<std::uint64_t>(last.value_or(0)) < number) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::vector<int> not_arrived(Group::State& state, std::uint64_t number) {
  if (!without_arrival(state, number).empty()) {
    std::this_thread::sleep_for(kOnTheWay);
  }
  return without_arrival(state, number);
}

// Which ranks were missing and how that was noticed, as the first rank to notice saw it. All ranks
// agree on this.
struct MissingRanks {
  std::string missing;       // "1, 3"; empty if all had come, or the store is gone too.
  bool broke_early = false;  // The wait failed before its deadline.
};

MissingRanks find_missing(Group::State& state, std::uint64_t number, bool broke_early) {
  try {
    const std::string mine =
        (broke_early ? "broke:" : "late:") + join_numbers(not_arrived(state, number));
    const auto key = "barrier/missing/" + std::to_string(number);
    const auto first = to_string(state.store->compareSet(key, {}, to_bytes(mine)));
    const auto colon = first.find(':');
    return {first.substr(colon + 1), first.starts_with("broke:")};
  } catch (const std::exception&) {
    return {};
  }
}

bool lists(const std::string& ranks, int rank) {
  for (const auto& text : split(ranks, ',')) {
    if (parse_int(trim(text)) == rank) {
      return true;
    }
  }
  return false;
}

}  // namespace

void Group::barrier(const CollectiveOptions& options) const {
  const auto timeout = options.timeout.value_or(this->timeout());
  const auto device = state_->backends.contains(at::kCPU) ? at::kCPU : at::kCUDA;
  const auto waits_in = backend(device);
  const std::string what =
      "barrier #" + std::to_string(state_->next_number(device)) + " on " + state_->who();
  comm::require_positive(what, timeout);
  const auto number = ++state_->barriers;
  state_->count(device);
  try {
    comm::as_peer_error(what, [&] {
      state_->store->set(arrival_key(rank()), to_bytes(std::to_string(number)));
      comm::meet_before_first(*state_, what, device, timeout);
      c10d::BarrierOptions settings;
      settings.timeout = timeout;
      waits_in->barrier(settings)->wait();
    });
  } catch (const PeerError& error) {
    const bool broke_early = error.cause() != PeerError::Cause::kLate;
    const MissingRanks found = find_missing(*state_, number, broke_early);
    if (found.missing.empty()) {
      throw;
    }
    const std::string cause = error.what();
    const std::string missing =
        (found.missing.find(',') == std::string::npos ? "rank " : "ranks ") + found.missing;
    const std::string late = lists(found.missing, rank()) ? " (this rank came too late)" : "";
    if (found.broke_early) {  // The cause says more: a rank ended, or called something else.
      throw PeerError((cause.starts_with(what) ? "" : what + ": ") + cause + "; " + missing +
                      " had not come to this barrier" + late);
    }
    throw PeerError(what + ": " + missing + " did not arrive within " + to_text(timeout) + late +
                    "; see their logs, or raise the timeout [" + cause + "]");
  }
}

}  // namespace lockstep
