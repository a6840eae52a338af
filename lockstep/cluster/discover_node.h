// Finds out which node of which job a launcher is, from its environment alone.
//
// A launcher that a scheduler or an MPI starter runs once on each node is to its nodes what a rank
// is to its world: discover() tells, and this file checks that there is one launcher a node.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/sockets/socket.h"

namespace lockstep::cluster {

struct NodePlace {
  std::string found_by;  // "Slurm step 17.0", for messages.
  int count = 2;         // Nodes of the job, two or more.
  int rank = 0;
  Endpoint master;  // On node 0; the port follows from the job id, so that all agree on it.
  std::string job;  // "slurm-17.0"; empty where no id is known.
};

// Nothing: a job of this node alone. That is also what a worker of another launcher gets, which is
// told by RANK.
// Throws UsageError that says what to write where several launchers were started on one node, and
// where one was started for an allocation of several nodes: it would wait for nobody.
std::optional<NodePlace> discover_node(const Environment& environment);

}  // namespace lockstep::cluster
