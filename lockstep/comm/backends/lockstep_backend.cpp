// "lockstep": shared memory where all ranks of the group are on one host, and where they are not,
// shared memory inside each host and Gloo between them.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/backends/hosts/backend.h"
#include "lockstep/comm/rendezvous/rank_info.h"

namespace lockstep {
namespace {

// The map is the same on every rank, except for the rank's own place in it.
comm::HostMap map_of(const BackendRequest& request) {
  std::vector<comm::HostCard> cards;
  for (const auto& text :
       comm::gather_rank_infos(*request.store,
                               {.rank = request.rank,
                                .size = request.size,
                                .backend = "lockstep",
                                .text = comm::HostCard::of_this_process().to_text()},
                               request.connect_timeout)) {
    cards.push_back(comm::HostCard::from_text(text));
  }
  return {cards, request.rank};
}

}  // namespace

void register_lockstep(BackendRegistry& registry) {
  registry.add(
      "lockstep", {c10::kCPU},
      [gloo = registry.factory("gloo"), shm = registry.factory("shm")](
          const BackendRequest& request) -> c10::intrusive_ptr<c10d::Backend> {
        const auto deadline = Deadline::in(request.connect_timeout);
        const auto map = map_of(request);
        BackendRequest rest = request;
        rest.connect_timeout = deadline.as_timeout();
        rest.name = "lockstep";  // Wherever the ranks are.
        if (map.hosts() == 1) {
          return shm(rest);
        }
        return c10::make_intrusive<comm::HostsBackend>(rest, map, gloo);
      },
      {Capability::kEverything, Capability::kAverages, Capability::kPremultiplies,
       Capability::kNumbers, Capability::kChoosesInterfaces, Capability::kWaitsForAllRanks});
}

}  // namespace lockstep
