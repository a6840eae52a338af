// lockstep's transports for programs that use LibTorch's c10d and nothing else of lockstep.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/comm/backend_registry.h"

namespace lockstep {

struct BackendOptions {
  // "lockstep" (shared memory on one host, Gloo across hosts), "shm", "gloo", "mpi" or "nccl".
  std::string name = "lockstep";
  // The time for all ranks to join, and for each collective that has no timeout of its own.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // For Gloo, best first. Empty: LOCKSTEP_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, else Gloo's choice.
  std::vector<std::string> interfaces;
};

// Connects this rank to the others, which all make the same call, and blocks until they have.
//
// What it returns can be used by itself or given to c10d::ProcessGroup::setBackend(). Keys in the
// store begin with "lockstep/". A store serves one backend after the other; a second one at the
// same time needs a c10d::PrefixStore of its own. The store must live as long as the backend.
//
// Throws UsageError for arguments that are invalid or differ from those of the rank that came
// first, and PeerError if a rank does not join in time.
c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size,
                                               const BackendOptions& options = {});

}  // namespace lockstep
