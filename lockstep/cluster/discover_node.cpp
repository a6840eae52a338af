#include "lockstep/cluster/discover_node.h"

#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/cluster/discover.h"
#include "lockstep/cluster/host_list.h"

namespace lockstep::cluster {
namespace {

constexpr const char* kNodeFlags = "give --nnodes, --node-rank and --master-addr";

// How to start one task a node.
std::string one_a_node(Starter starter) {
  switch (starter) {
    case Starter::kSlurm:
      return "srun --ntasks-per-node=1 lockstep run --nproc-per-node N PROGRAM";
    case Starter::kOpenMpi:
      return "mpirun --map-by ppr:1:node lockstep run --nproc-per-node N PROGRAM";
    case Starter::kPmi:
      return "mpiexec -ppn 1 lockstep run --nproc-per-node N PROGRAM";
    default:
      return "qsub -l select=...:mpiprocs=1, then pbsdsh -- env PBS_NODEFILE=COPY lockstep run "
             "--nproc-per-node N PROGRAM, with a copy of the node file that all nodes see, as in "
             "docs/guides/clusters/job.pbs";
  }
}

[[noreturn]] void throw_several_tasks_on_a_node(const Membership& member,
                                                const std::string& how_many) {
  throw UsageError(member.found_by + " starts " + how_many +
                   ", and each would be a launcher; lockstep run starts the ranks itself\nHINT: " +
                   one_a_node(member.starter) +
                   "; or PROGRAM in the place of lockstep run, one task a rank; or --standalone, "
                   "for a job of its own in each task");
}

[[noreturn]] void throw_other_nodes_idle(const std::string& job, std::size_t nodes,
                                         Starter starter) {
  throw UsageError(job + " has " + std::to_string(nodes) +
                   " nodes, but lockstep run was started on this one alone, and would leave the "
                   "others idle\nHINT: " +
                   one_a_node(starter) + "; or --standalone, for a job on this node alone");
}

std::size_t different(const std::vector<std::string>& hosts) {
  return std::set<std::string>(hosts.begin(), hosts.end()).size();
}

// In a container the file may be out of sight, and nothing follows from that.
std::size_t nodes_of_pbs_job(const Environment& env) {
  try {
    return different(read_node_file(env.get("PBS_NODEFILE").value_or("")));
  } catch (const IoError&) {
    return 1;
  }
}

// A launcher in a batch script, or in the shell of an allocation.
void require_one_node(const Environment& env) {
  const auto slurm = env.get("SLURM_JOB_ID");
  if (const auto list = env.get("SLURM_JOB_NODELIST"); slurm && list) {
    if (const auto nodes = expand_slurm_hosts(*list).size(); nodes > 1) {
      throw_other_nodes_idle("Slurm job " + *slurm, nodes, Starter::kSlurm);
    }
  }
  const auto pbs = env.get("PBS_JOBID");
  if (const auto nodes = nodes_of_pbs_job(env); pbs && nodes > 1) {
    throw_other_nodes_idle("PBS job " + *pbs, nodes, Starter::kPbsdsh);
  }
}

// Every task comes to the same answer wherever the environment tells of all nodes: none may wait
// for others that have given up.
void require_one_a_node(const Environment& env, const Membership& member) {
  if (member.node_count && *member.node_count != member.world_size) {
    throw_several_tasks_on_a_node(member, std::to_string(member.world_size) + " tasks on " +
                                              counted(*member.node_count, "node"));
  }
  if (!member.node_count && !member.local_size && member.world_size > 1) {
    throw UsageError(member.found_by + " starts " + std::to_string(member.world_size) +
                     " tasks, but does not tell how many of them are on this node; there must be "
                     "one lockstep run a node\nHINT: " +
                     kNodeFlags + "; or --standalone, for a job of its own in each task");
  }
  if (member.local_size.value_or(1) > 1) {
    throw_several_tasks_on_a_node(member,
                                  std::to_string(*member.local_size) + " tasks on this node");
  }
  if (member.starter == Starter::kPbsdsh) {
    // PBS_NODENUM counts nodes; that there is a task for each line only the file tells.
    const auto slots = pbsdsh_slots(env, kNodeFlags);
    if (slots.size() != different(slots)) {
      throw_several_tasks_on_a_node(member, std::to_string(slots.size()) + " tasks on " +
                                                std::to_string(different(slots)) + " nodes");
    }
  }
}

}  // namespace

std::optional<NodePlace> discover_node(const Environment& environment) {
  if (environment.has("RANK")) {
    return std::nullopt;
  }
  Environment env = environment;
  env.set("WORLD_SIZE", "");  // Without RANK it comes from a batch script, not from a launcher.
  if (find_starter(env) == Starter::kPbsdsh) {
    pbsdsh_slots(env, kNodeFlags);  // discover() would speak of variables instead of flags.
  }
  const Membership member = discover(env, 0);
  if (member.starter == Starter::kNobody) {
    require_one_node(env);
    return std::nullopt;
  }
  require_one_a_node(env, member);
  if (member.world_size == 1) {
    return std::nullopt;
  }
  return NodePlace{.found_by = member.found_by,
                   .count = member.world_size,
                   .rank = member.node_rank.value_or(member.rank),
                   .master = member.master.value(),
                   .job = member.job};
}

}  // namespace lockstep::cluster
