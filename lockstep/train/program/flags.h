// The command line of `lockstep train` and its config file. The flags of training are in
// config/option_table.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/config/config.h"

namespace lockstep::train {

// Who takes part in the job.
struct JobConfig {
  int nproc = 0;  // Ranks on this machine; 0: one for each GPU, else one.
  int nodes = 1;
  int node_rank = 0;  // --nr.
  std::string master_addr;
  int master_port = 0;
  std::string dist_url;  // tcp://HOST:PORT, with rank and world_size.
  int rank = -1;
  int world_size = 0;
  std::string gpu_ids;
  std::string backend;
  int timeout_seconds = 1800;
  int max_restarts = 0;
  int join_timeout_seconds = 0;      // For all nodes to come; 0: the launcher's default.
  std::string log_dir;               // For the ranks' output; empty: in the run's folder.
  int shutdown_timeout_seconds = 0;  // From a signal to the launcher to SIGKILL; 0: its default.
};

// The settings that are the same on all nodes, for a config file.
std::string to_toml(const JobConfig& job);

struct CommandLine {
  TrainConfig train;
  JobConfig job;
  std::string config_file;       // That of --config; empty: none.
  std::optional<int> exit_code;  // Nothing is to be trained: help was asked for and given.
};

// Flags win over the file that --config names. `networks` are names for --help. Throws UsageError
// that names the flag, with the nearest right one.
CommandLine parse_command_line(int argc, const char* const* argv,
                               const std::vector<std::string>& networks = {});

}  // namespace lockstep::train
