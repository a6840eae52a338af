// lockstep._C: hands the C++ backend to Python. Everything else of the package is Python.
#include <c10/util/intrusive_ptr.h>
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/rendezvous/interfaces.h"

// As torch's own bindings hold a Backend and a Store.
PYBIND11_DECLARE_HOLDER_TYPE(T, c10::intrusive_ptr<T>, true)

namespace {

// Only matters between hosts, and there LOCAL_WORLD_SIZE says nothing about a subgroup: so the
// choice is left to the variables of the user and the way to MASTER_ADDR, as for a C++ rank.
std::vector<std::string> interfaces_for(int size) {
  const auto environment = lockstep::Environment::of_this_process();
  lockstep::cluster::Membership member;
  member.world_size = size;
  return lockstep::comm::choose_interfaces(environment, member,
                                           environment.get("MASTER_ADDR").value_or(""));
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

}  // namespace

PYBIND11_MODULE(_C, module) {
  // Other Python threads go on while it waits, and a store may be written in Python.
  module.def("make_backend", &make_backend, pybind11::arg("store"), pybind11::arg("rank"),
             pybind11::arg("size"), pybind11::arg("timeout"),
             pybind11::call_guard<pybind11::gil_scoped_release>());
}
