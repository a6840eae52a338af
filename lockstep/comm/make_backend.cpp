#include "lockstep/comm/make_backend.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/interfaces.h"
#include "lockstep/comm/rendezvous/rank_info.h"
#include "lockstep/comm/rendezvous/store_round.h"

namespace lockstep {

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size, const BackendOptions& options) {
  cluster::check_rank(rank, size, "make_backend");
  const std::string what =
      "make_backend on rank " + std::to_string(rank) + " of " + std::to_string(size);
  if (!store) {
    throw UsageError(what + ": the store is null, expected one that all ranks share");
  }
  if (options.timeout <= std::chrono::milliseconds(0)) {
    throw UsageError(what + ": the timeout is " + std::to_string(options.timeout.count()) +
                     " ms, expected more than 0");
  }
  cluster::Membership member;
  member.rank = rank;
  member.world_size = size;
  BackendRequest request{
      .store = c10::make_intrusive<c10d::PrefixStore>("lockstep", store),
      .rank = rank,
      .size = size,
      .timeout = options.timeout,
      .connect_timeout = options.timeout,
      .interfaces = options.interfaces,
  };
  if (request.interfaces.empty()) {
    request.interfaces = comm::choose_interfaces(Environment::of_this_process(), member, "");
  }
  const auto registry = BackendRegistry::built_in();
  (void)registry.factory(options.name);  // Rejects a wrong name before it goes into the store.
  return comm::as_peer_error(what, [&] {
    std::optional<comm::StoreRound> round;
    if (registry.capabilities(options.name).contains(Capability::kWaitsForAllRanks)) {
      round.emplace(request.store);
    }
    const auto meeting = round ? round->store() : request.store;
    const comm::RankInfo mine{.rank = rank, .size = size, .backend = options.name, .text = ""};
    comm::require_same_as_first(*meeting, mine);
    request.store = c10::make_intrusive<c10d::PrefixStore>(options.name, meeting);
    try {
      auto backend = registry.factory(options.name)(request);
      if (round) {
        round->formed();
      }
      return backend;
    } catch (const comm::AbsentRanks& error) {
      const auto differ = comm::differences(*meeting, mine);
      throw PeerError(what + ": " + error.what() + (differ.empty() ? "" : "; " + differ));
    }
  });
}

}  // namespace lockstep
