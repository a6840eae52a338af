// Who is which rank, and what each worker finds in its environment.
//
// Pure: every node that is given the same plan computes the same ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::launch {

struct NodeInfo {
  std::string host;
  int workers = 1;
  std::string role = "default";
};

// One attempt at running the job; the same on every node.
struct JobPlan {
  std::string run_id;
  std::vector<NodeInfo> nodes;  // By node rank.
  std::string master_addr;
  int master_port = 0;
  int attempt = 0;
  int max_restarts = 0;
};

int world_size(const JobPlan& plan);

// The global rank of local rank 0 on that node.
int first_rank(const JobPlan& plan, int node_rank);

// torchrun's variables for one worker, except TORCHELASTIC_ERROR_FILE, which is the log's business.
std::map<std::string, std::string> worker_environment(const JobPlan& plan, int node_rank,
                                                      int local_rank);

// Variables that a worker gets unless the user has set them: OMP_NUM_THREADS, this node's cores
// divided by its workers, and TORCH_NCCL_ASYNC_ERROR_HANDLING as torchrun sets it.
std::map<std::string, std::string> default_environment(const Environment& users, int cores,
                                                       int workers);

}  // namespace lockstep::launch
