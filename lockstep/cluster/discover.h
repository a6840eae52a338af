// Finds out which rank of which job this process is, from its environment alone.
//
// Pure: reads no clock, opens no socket, and only the file that PBS_NODEFILE names.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/cluster/starter.h"

namespace lockstep::cluster {

struct Membership {
  Starter starter = Starter::kNobody;
  std::string found_by = "alone";  // What gave the ranks away, for messages.
  bool launched = false;           // False only when this process is alone.
  int rank = 0;
  int world_size = 1;

  // Where the environment tells them; else they follow from who shares a host.
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> node_rank;
  std::optional<int> node_count;

  std::string job;  // "slurm-17.0", the same on all ranks; empty where the starter gives no id.
  // How the ranks meet: at an address, or, on one host, under a name made of the job id.
  std::optional<Endpoint> master;
  std::string meeting_name;
  bool launcher_serves_store = false;  // All ranks are clients of a store beside the launcher.
};

// What find_starter() finds. MASTER_ADDR and MASTER_PORT are honoured in every case. Throws
// UsageError that names the variable that is missing or wrong, and what to set. `parent_process`
// tells two jobs apart where the starter gives no job id.
Membership discover(const Environment& environment, int parent_process);

// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, all required: init_method env://.
// A rank or world size given in the call takes the place of its variable.
Membership discover_env(const Environment& environment, std::optional<int> rank = std::nullopt,
                        std::optional<int> world_size = std::nullopt);

// Throws UsageError unless 0 <= rank < world_size; `source` says where they came from.
void check_rank(std::int64_t rank, std::int64_t world_size, const std::string& source);

}  // namespace lockstep::cluster
