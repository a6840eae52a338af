// "lockstep": shared memory where all ranks of the group are on one host, Gloo where they are not.
#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/backend_registry.h"

namespace lockstep {
namespace {

std::string key_of(int rank) { return "host/" + std::to_string(rank); }

// The same answer on every rank, because every rank compares all hosts.
bool on_one_host(const BackendRequest& request) {
  const std::string here = host_id();
  request.store->set(key_of(request.rank), std::vector<std::uint8_t>(here.begin(), here.end()));
  std::vector<std::string> keys;
  for (int rank = 0; rank < request.size; ++rank) {
    keys.push_back(key_of(rank));
  }
  request.store->wait(keys, request.connect_timeout);
  const auto first = request.store->get(keys[0]);
  for (const auto& key : keys) {
    if (request.store->get(key) != first) {
      return false;
    }
  }
  return true;
}

}  // namespace

void register_lockstep(BackendRegistry& registry) {
  registry.add("lockstep", {c10::kCPU},
               [gloo = registry.factory("gloo"),
                shm = registry.factory("shm")](const BackendRequest& request) {
                 const auto deadline = Deadline::in(request.connect_timeout);
                 const bool one_host = on_one_host(request);
                 BackendRequest rest = request;
                 rest.connect_timeout =
                     std::max(deadline.remaining(), std::chrono::milliseconds(1));
                 return one_host ? shm(rest) : gloo(rest);
               });
}

}  // namespace lockstep
