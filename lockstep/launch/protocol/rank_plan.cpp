#include "lockstep/launch/protocol/rank_plan.h"

#include <algorithm>

namespace lockstep::launch {
namespace {

// Workers on the nodes before `end` whose role is `role`.
int count_role(const JobPlan& plan, std::size_t end, const std::string& role) {
  int count = 0;
  for (std::size_t i = 0; i < end; ++i) {
    count += plan.nodes[i].role == role ? plan.nodes[i].workers : 0;
  }
  return count;
}

}  // namespace

int world_size(const JobPlan& plan) {
  return first_rank(plan, static_cast<int>(plan.nodes.size()));
}

int first_rank(const JobPlan& plan, int node_rank) {
  int rank = 0;
  for (int i = 0; i < node_rank; ++i) {
    rank += plan.nodes[static_cast<std::size_t>(i)].workers;
  }
  return rank;
}

std::map<std::string, std::string> worker_environment(const JobPlan& plan, int node_rank,
                                                      int local_rank) {
  const auto node_index = static_cast<std::size_t>(node_rank);
  const NodeInfo& node = plan.nodes.at(node_index);
  const auto text = [](int number) { return std::to_string(number); };
  return {
      {"LOCAL_RANK", text(local_rank)},
      {"RANK", text(first_rank(plan, node_rank) + local_rank)},
      {"GROUP_RANK", text(node_rank)},
      {"ROLE_RANK", text(count_role(plan, node_index, node.role) + local_rank)},
      {"ROLE_NAME", node.role},
      {"LOCAL_WORLD_SIZE", text(node.workers)},
      {"WORLD_SIZE", text(world_size(plan))},
      {"GROUP_WORLD_SIZE", text(static_cast<int>(plan.nodes.size()))},
      {"ROLE_WORLD_SIZE", text(count_role(plan, plan.nodes.size(), node.role))},
      {"MASTER_ADDR", plan.master_addr},
      {"MASTER_PORT", text(plan.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", text(plan.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", text(plan.max_restarts)},
      {"TORCHELASTIC_RUN_ID", plan.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
  };
}

std::map<std::string, std::string> default_environment(const Environment& users, int cores,
                                                       int workers) {
  std::map<std::string, std::string> defaults;
  if (!users.has("OMP_NUM_THREADS")) {
    defaults["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / workers));
  }
  if (!users.has("TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
    defaults.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  }
  return defaults;
}

}  // namespace lockstep::launch
