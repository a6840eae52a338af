// lockstep._C: hands the C++ backend to Python. Everything else of the package is Python.
#include <c10/util/intrusive_ptr.h>
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/backends/hosts/backend.h"
#include "lockstep/comm/backends/shm/backend.h"
#include "lockstep/comm/placement_allocator.h"
#include "lockstep/comm/rendezvous/interfaces.h"

// As torch's own bindings hold a Backend and a Store.
PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true)

namespace {

namespace comm = lockstep::comm;

// Only matters between hosts, and there LOCAL_WORLD_SIZE says nothing about a subgroup: so the
// choice is left to the variables of the user and the way to MASTER_ADDR, as for a C++ rank.
std::vector<std::string> interfaces_for(int size) {
  const auto environment = lockstep::Environment::of_this_process();
  lockstep::cluster::Membership member;
  member.world_size = size;
  return comm::choose_interfaces(environment, member, environment.get("MASTER_ADDR").value_or(""));
}

// The signature that torch.distributed.Backend.register_backend() asks for. Blocks until all ranks
// of the group have come.
c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               std::chrono::milliseconds timeout) {
  return lockstep::BackendRegistry::built_in().make("lockstep",
                                                    {.store = store,
                                                     .rank = rank,
                                                     .size = size,
                                                     .timeout = timeout,
                                                     .connect_timeout = timeout,
                                                     .interfaces = interfaces_for(size)});
}

// The one that has shared memory; else throws an error that begins with `what`.
const comm::ShmBackend& shm_backend(const c10d::Backend& backend, const std::string& what) {
  if (const auto* shm = dynamic_cast<const comm::ShmBackend*>(&backend)) {
    return *shm;
  }
  if (dynamic_cast<const comm::HostsBackend*>(&backend) != nullptr) {
    throw lockstep::UsageError(
        what +
        ": the group's ranks are on several hosts and share no memory, so its tensors are always "
        "copied; leave it out, or give a group of the ranks of one host");
  }
  throw lockstep::UsageError(what + ": the group's backend for CPU tensors is '" +
                             backend.getBackendName() + "', expected 'lockstep'");
}

// Where tensors are made in the group's arena. Installs what asks it.
std::shared_ptr<comm::MemorySource> arena_source(const c10d::Backend& backend) {
  auto source = shm_backend(backend, "lockstep.arena").arena_source();
  comm::install_placement_allocator(lockstep::Environment::of_this_process());
  static_cast<void>(comm::placement_is_on());  // Warns if the program has its own allocator.
  return source;
}

pybind11::dict memory_stats(const c10d::Backend& backend) {
  const auto stats = shm_backend(backend, "lockstep.memory_stats").memory_stats();
  pybind11::dict told;
  told["allocated_bytes"] = stats.arena.allocated_bytes;
  told["reserved_bytes"] = stats.arena.reserved_bytes;
  told["copied_bytes"] = stats.copied_bytes;
  return told;
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  // Other Python threads go on while it waits, and a store may be written in Python.
  module.def("make_backend", &make_backend, pybind11::arg("store"), pybind11::arg("rank"),
             pybind11::arg("size"), pybind11::arg("timeout"),
             pybind11::call_guard<pybind11::gil_scoped_release>());

  const pybind11::class_<comm::MemorySource, std::shared_ptr<comm::MemorySource>> source(
      module, "MemorySource");
  module.def("arena_source", &arena_source, pybind11::arg("backend"));
  // The source of this thread; None if it asks that of all threads, or none.
  module.def("memory_source", &comm::memory_source);
  module.def("set_memory_source", &comm::set_memory_source, pybind11::arg("source").none(true));
  module.def("set_memory_source_of_all_threads", &comm::set_memory_source_of_all_threads,
             pybind11::arg("source"));
  module.def("memory_stats", &memory_stats, pybind11::arg("backend"));
}
