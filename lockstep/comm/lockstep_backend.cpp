// "lockstep": shared memory where all ranks of the group are on one host, and where they are not,
// shared memory inside each host and Gloo between them.
#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/hosts_backend.h"

namespace lockstep {
namespace {

std::string key_of(int rank) { return "host/" + std::to_string(rank); }

// The same map on every rank but for its own place in it.
comm::HostMap map_of(const BackendRequest& request) {
  const std::string here = comm::HostCard::of_this_process().to_text();
  request.store->set(key_of(request.rank), std::vector<std::uint8_t>(here.begin(), here.end()));
  std::vector<std::string> keys;
  for (int rank = 0; rank < request.size; ++rank) {
    keys.push_back(key_of(rank));
  }
  request.store->wait(keys, request.connect_timeout);
  std::vector<comm::HostCard> cards;
  for (const auto& key : keys) {
    const auto text = request.store->get(key);
    cards.push_back(comm::HostCard::from_text({text.begin(), text.end()}));
  }
  return {cards, request.rank};
}

}  // namespace

void register_lockstep(BackendRegistry& registry) {
  registry.add("lockstep", {c10::kCPU},
               [gloo = registry.factory("gloo"), shm = registry.factory("shm")](
                   const BackendRequest& request) -> c10::intrusive_ptr<c10d::Backend> {
                 const auto deadline = Deadline::in(request.connect_timeout);
                 const auto map = map_of(request);
                 BackendRequest rest = request;
                 rest.connect_timeout = deadline.as_timeout();
                 if (map.hosts() == 1) {
                   return shm(rest);
                 }
                 return c10::make_intrusive<comm::HostsBackend>(rest, map, gloo);
               });
}

}  // namespace lockstep
