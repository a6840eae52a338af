// Where a distributed program begins.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/group.h"

namespace lockstep {

struct InitOptions {
  // "lockstep", "shm", "gloo", "nccl", "mpi" or "cpu:gloo,cuda:nccl". Empty: nccl beside lockstep
  // where GPUs are seen, else lockstep (shared memory inside a host, Gloo between); and no
  // process group at all for a process that is alone.
  std::string backend;
  // "env://", "tcp://host:port" or "file:///path". Empty: found out from the environment.
  std::string init_method;
  std::optional<int> rank;
  std::optional<int> world_size;
  // One deadline for the store, for forming the group and for each collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Where backend names come from; add() to a copy of built_in() to bring your own.
  BackendRegistry registry = BackendRegistry::built_in();
};

// Joins the job that this process was started for, and blocks until all of its ranks have joined.
//
// Without arguments it looks at RANK/WORLD_SIZE (torchrun, lockstep run), Open MPI, a Slurm step,
// PMI and pbsdsh, in this order (lockstep/cluster/discover.cpp). A process that none of them
// started is alone and gets a group of one that opens no socket. Group::found_by() tells which it
// was.
//
// Under a launcher that sets TORCHELASTIC_ERROR_FILE, uncaught exceptions and fatal signals
// are from then on reported in that file.
//
// Throws UsageError that names the variable or option to set, and PeerError that names the address
// or the ranks that did not join in time.
Group init_process_group(const InitOptions& options = {});

}  // namespace lockstep
