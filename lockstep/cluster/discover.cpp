#include "lockstep/cluster/discover.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/cluster/host_list.h"

namespace lockstep::cluster {
namespace {

constexpr int kDefaultPort = 29500;
constexpr const char* kSetMasterAddr =
    "set MASTER_ADDR to the host of rank 0 and pass it on to all ranks (mpirun -x MASTER_ADDR, "
    "mpiexec -genvlist MASTER_ADDR)";

std::optional<int> small_int(const Environment& env, const char* name) {
  const auto value = env.get_int(name);
  if (value && (*value < 0 || *value > 1'000'000'000)) {
    throw UsageError(std::string("environment variable ") + name + " is " + std::to_string(*value) +
                     ", expected a number from 0 up");
  }
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

int checked_port(const Environment& env) {
  const auto text = env.get("MASTER_PORT");
  const auto port = text ? parse_int(*text) : std::nullopt;
  if (text && (!port || *port < 1 || *port > 65535)) {
    throw UsageError("environment variable MASTER_PORT is '" + *text +
                     "', expected a port from 1 to 65535");
  }
  return port ? static_cast<int>(*port) : 0;
}

// The same port on every host of one job, another one for most other jobs; below
// the range from which kernels hand out ports by themselves.
int port_of_job(const std::string& job) {
  if (job.empty()) {
    return kDefaultPort;
  }
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return 20000 + static_cast<int>(hash % 10000U);
}

struct ScheduledJob {
  std::string scheduler;
  std::string id;
  std::vector<std::string> hosts;  // In node order; empty where the scheduler does not tell.
  bool one_host = false;
};

// MASTER_ADDR if set; one host meets by name; several on the first of the list.
void choose_meeting(const Environment& env, const ScheduledJob& job, Membership& member) {
  member.job = job.id.empty() ? "" : job.scheduler + "-" + job.id;
  const int port = checked_port(env);
  if (const auto address = env.get("MASTER_ADDR")) {
    member.master = Endpoint{*address, port != 0 ? port : port_of_job(job.id)};
  } else if (job.one_host || member.world_size == 1) {
    member.meeting_name = job.scheduler + "-" + job.id;
  } else if (!job.hosts.empty()) {
    member.master = Endpoint{job.hosts.front(), port != 0 ? port : port_of_job(job.id)};
  } else {
    throw UsageError("on rank " + std::to_string(member.rank) + " of " +
                     std::to_string(member.world_size) + ": " + member.found_by +
                     " gives ranks on several hosts but no address; " + kSetMasterAddr);
  }
}

// Both numbers are checked before they are narrowed.
void take_rank(const Environment& env, const char* rank_name, const char* size_name,
               Membership& member) {
  const auto rank = env.require_int(rank_name);
  const auto size = env.require_int(size_name);
  check_rank(rank, size, std::string(rank_name) + " and " + size_name);
  member.launched = true;
  member.rank = static_cast<int>(rank);
  member.world_size = static_cast<int>(size);
}

Membership from_slurm(const Environment& env) {
  Membership member;
  const bool step_tasks = env.has("SLURM_STEP_NUM_TASKS");
  member.starter = Starter::kSlurm;
  take_rank(env, "SLURM_PROCID", step_tasks ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", member);
  member.local_rank = small_int(env, "SLURM_LOCALID");
  member.node_rank = small_int(env, "SLURM_NODEID");

  ScheduledJob job{
      .scheduler = "slurm",
      .id = env.get("SLURM_JOB_ID").value_or("0") + "." + env.get("SLURM_STEP_ID").value_or("0")};
  member.found_by = "Slurm step " + job.id;
  if (const auto list = env.get("SLURM_STEP_NODELIST"); list || env.has("SLURM_JOB_NODELIST")) {
    job.hosts = expand_slurm_hosts(list ? *list : *env.get("SLURM_JOB_NODELIST"));
  }
  const auto tasks = env.get("SLURM_STEP_TASKS_PER_NODE");
  if (tasks || env.has("SLURM_TASKS_PER_NODE")) {
    const auto counts = expand_slurm_tasks(tasks ? *tasks : *env.get("SLURM_TASKS_PER_NODE"));
    const auto node = static_cast<std::size_t>(member.node_rank.value_or(0));
    member.node_count = static_cast<int>(counts.size());
    if (node < counts.size()) {
      member.local_size = counts[node];
    }
  }
  if (!job.hosts.empty()) {
    member.node_count = static_cast<int>(job.hosts.size());
  }
  job.one_host = job.hosts.size() == 1 || member.local_size == member.world_size;
  choose_meeting(env, job, member);
  return member;
}

// mpirun inside a batch job tells no hosts of its own, but the batch system does.
std::vector<std::string> batch_hosts(const Environment& env, const Membership& member) {
  if (const auto list = env.get("SLURM_JOB_NODELIST")) {
    return expand_slurm_hosts(*list);
  }
  try {
    const auto file = env.get("PBS_NODEFILE");
    return file ? read_node_file(*file) : std::vector<std::string>();
  } catch (const IoError& error) {
    throw UsageError("on rank " + std::to_string(member.rank) + " of " +
                     std::to_string(member.world_size) + ": " + member.found_by +
                     " tells no hosts, and " + error.what() +
                     "; PBS keeps that list on the first node; " + kSetMasterAddr);
  }
}

// What an MPI starter calls its numbers.
struct MpiNames {
  Starter starter;
  const char* name;
  const char* scheduler;
  const char* rank;
  const char* size;
  std::vector<const char*> local_rank;  // The first that is set.
  std::vector<const char*> local_size;
  std::vector<const char*> job_ids;
};

const MpiNames& open_mpi() {
  static const MpiNames names{Starter::kOpenMpi,
                              "Open MPI",
                              "openmpi",
                              "OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_SIZE",
                              {"OMPI_COMM_WORLD_LOCAL_RANK"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                              {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
  return names;
}

const MpiNames& pmi() {
  // Hydra's names of the local numbers, and those of Cray's PALS.
  static const MpiNames names{Starter::kPmi,
                              "PMI",
                              "pmi",
                              "PMI_RANK",
                              "PMI_SIZE",
                              {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                              {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
                              {"PMI_JOBID"}};
  return names;
}

std::optional<int> first_int(const Environment& env, const std::vector<const char*>& names) {
  const auto name =
      std::find_if(names.begin(), names.end(), [&](const char* each) { return env.has(each); });
  return name == names.end() ? std::nullopt : small_int(env, *name);
}

Membership from_mpi(const Environment& env, const MpiNames& names, int parent_process) {
  Membership member;
  take_rank(env, names.rank, names.size, member);
  member.starter = names.starter;
  member.found_by = names.name;
  member.local_rank = first_int(env, names.local_rank);
  member.local_size = first_int(env, names.local_size);
  ScheduledJob job{.scheduler = names.scheduler};
  job.one_host = member.local_size == member.world_size;
  auto ids = names.job_ids;
  ids.insert(ids.end(), {"SLURM_JOB_ID", "PBS_JOBID"});
  for (const char* name : ids) {
    if (const auto id = env.get(name); id && job.id.empty()) {
      job.id = *id;
    }
  }
  if (job.one_host && job.id.empty()) {
    // Hydra tells no job id, but the ranks of one host are children of one proxy.
    job.id = "child-of-" + std::to_string(parent_process);
  }
  if (!job.one_host && !env.has("MASTER_ADDR")) {
    job.hosts = batch_hosts(env, member);
  }
  choose_meeting(env, job, member);
  return member;
}

Membership from_pbsdsh(const Environment& env) {
  const auto slots = pbsdsh_slots(env, "set RANK, WORLD_SIZE and MASTER_ADDR");
  std::vector<std::string> hosts;
  for (const auto& slot : slots) {
    if (std::find(hosts.begin(), hosts.end(), slot) == hosts.end()) {
      hosts.push_back(slot);
    }
  }
  Membership member;
  member.starter = Starter::kPbsdsh;
  member.launched = true;
  ScheduledJob job{.scheduler = "pbs", .id = env.get("PBS_JOBID").value_or("0"), .hosts = hosts};
  member.found_by = "pbsdsh of job " + job.id;
  const bool per_slot = env.has("PBS_VNODENUM");
  const auto& places = per_slot ? slots : hosts;
  const auto rank = env.require_int(per_slot ? "PBS_VNODENUM" : "PBS_NODENUM");
  member.world_size = static_cast<int>(places.size());
  check_rank(rank, member.world_size, "pbsdsh's task number and the lines of PBS_NODEFILE");
  member.rank = static_cast<int>(rank);
  const auto& here = places[static_cast<std::size_t>(member.rank)];
  member.local_rank =
      static_cast<int>(std::count(places.begin(), places.begin() + member.rank, here));
  member.local_size = static_cast<int>(std::count(places.begin(), places.end(), here));
  member.node_rank = static_cast<int>(std::find(hosts.begin(), hosts.end(), here) - hosts.begin());
  member.node_count = static_cast<int>(hosts.size());
  job.one_host = hosts.size() == 1;
  choose_meeting(env, job, member);
  return member;
}

}  // namespace

void check_rank(std::int64_t rank, std::int64_t world_size, const std::string& source) {
  constexpr std::int64_t kMost = 1 << 20;
  if (world_size < 1 || world_size > kMost) {
    throw UsageError(source + ": the world size is " + std::to_string(world_size) +
                     ", expected 1 or more");
  }
  if (rank < 0 || rank >= world_size) {
    throw UsageError(source + ": the rank is " + std::to_string(rank) +
                     ", expected 0 to world size - 1 = " + std::to_string(world_size - 1));
  }
}

Membership discover_env(const Environment& env, std::optional<int> rank,
                        std::optional<int> world_size) {
  Membership member;
  member.starter = Starter::kVariables;
  member.launched = true;
  member.found_by = "RANK and WORLD_SIZE";
  const auto rank_here = rank ? *rank : env.require_int("RANK");
  const auto size_here = world_size ? *world_size : env.require_int("WORLD_SIZE");
  check_rank(rank_here, size_here, "RANK and WORLD_SIZE");
  member.rank = static_cast<int>(rank_here);
  member.world_size = static_cast<int>(size_here);
  member.local_rank = small_int(env, "LOCAL_RANK");
  member.local_size = small_int(env, "LOCAL_WORLD_SIZE");
  member.node_rank = small_int(env, "GROUP_RANK");

  const auto address = env.get("MASTER_ADDR");
  const int port = checked_port(env);
  if (address) {
    member.master = Endpoint{*address, port != 0 ? port : kDefaultPort};
    member.launcher_serves_store = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  } else if (member.world_size > 1) {
    throw UsageError("init_process_group on rank " + std::to_string(member.rank) +
                     ": environment variable MASTER_ADDR is not set, but WORLD_SIZE is " +
                     std::to_string(member.world_size) +
                     "; set MASTER_ADDR and MASTER_PORT to where rank 0 can be reached, or start "
                     "the program with 'lockstep run'");
  }
  return member;
}

Membership discover(const Environment& env, int parent_process) {
  switch (find_starter(env)) {
    case Starter::kVariables:
      return discover_env(env);
    case Starter::kOpenMpi:
      return from_mpi(env, open_mpi(), parent_process);
    case Starter::kSlurm:
      return from_slurm(env);
    case Starter::kPmi:
      return from_mpi(env, pmi(), parent_process);
    case Starter::kPbsdsh:
      return from_pbsdsh(env);
    case Starter::kNobody:
      break;
  }
  return {};
}

}  // namespace lockstep::cluster
