// Who is there, and who shares a host: through the store, without a collective, so that a
// rank that does not take part (one that runs Python) disturbs nothing.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/roll_call.h"

namespace lockstep::comm {
namespace {

std::string host_key(int rank) { return "lockstep/host/" + std::to_string(rank); }

}  // namespace

void connect_or_explain(Group::State& state, const char* operation, Deadline deadline) {
  try {
    as_peer_error(std::string(operation) + " on " + state.who(), [&] { state.connect(deadline); });
  } catch (const PeerError& error) {
    std::vector<int> missing;
    std::string differ;
    try {
      missing = ranks_not_there(*state.store, state.size);
      differ = differences(*state.store, state.roll_entry());
    } catch (const std::exception&) {  // The store is gone as well; the first error stands.
    }
    state.leave(state.size - static_cast<int>(missing.size()));  // The others want to know as well.
    if (missing.empty() && differ.empty()) {
      throw;
    }
    const bool says_the_same = dynamic_cast<const AbsentRanks*>(&error) != nullptr;
    throw PeerError(std::string(operation) + " on " + state.who() + ": " +
                    (missing.empty() ? ""
                                     : list_ranks(missing) + " did not join within " +
                                           to_text(state.job->timeout) + "; ") +
                    (differ.empty() ? "see their logs, or raise the timeout" : differ) +
                    (says_the_same ? "" : std::string(" (") + error.what() + ")"));
  }
}

void publish_host(const Job& job) {
  const std::string id = host_id();
  job.store->set(host_key(job.member.rank), std::vector<std::uint8_t>(id.begin(), id.end()));
}

Place find_place(const Job& job) {
  if (job.member.world_size == 1) {
    return {};
  }
  std::vector<std::vector<std::uint8_t>> hosts;
  for (int rank = 0; rank < job.member.world_size; ++rank) {
    hosts.push_back(as_peer_error("looking for the host of rank " + std::to_string(rank),
                                  [&] { return job.store->get(host_key(rank)); }));
  }
  const auto& here = hosts[static_cast<std::size_t>(job.member.rank)];
  Place place;
  place.local_rank =
      static_cast<int>(std::count(hosts.begin(), hosts.begin() + job.member.rank, here));
  place.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), here));
  std::vector<std::vector<std::uint8_t>> nodes;  // In the order of their first rank.
  for (const auto& host : hosts) {
    if (std::find(nodes.begin(), nodes.end(), host) == nodes.end()) {
      nodes.push_back(host);
    }
  }
  place.node_rank = static_cast<int>(std::find(nodes.begin(), nodes.end(), here) - nodes.begin());
  return place;
}

}  // namespace lockstep::comm
