#include "lockstep/cluster/starter.h"

#include <cstdint>

namespace lockstep::cluster {
namespace {

bool is_slurm_step(const Environment& env) {
  // The batch script, and the shell of an interactive allocation, carry the job's
  // variables too, but no step that has tasks: their ids are at the top of 32 bits.
  constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;
  const auto step = env.get_int("SLURM_STEP_ID");
  return step && *step < kFirstSpecialStep && env.has("SLURM_PROCID");
}

// Hydra, of MPICH and Intel MPI, starts one proxy a node with srun, and its ranks inherit the step
// of the proxies. srun --mpi=pmi2 sets PMI variables too, but with the numbers of the step, and
// without local ones.
bool is_hydra_in_step(const Environment& env) {
  const auto rank = env.get("PMI_RANK");
  const auto size = env.get("PMI_SIZE");
  const auto step_tasks = env.get("SLURM_STEP_NUM_TASKS");
  return rank && size &&
         (env.has("MPI_LOCALNRANKS") || rank != env.get("SLURM_PROCID") ||
          size != (step_tasks ? step_tasks : env.get("SLURM_NTASKS")));
}

// "00000001" is "1", and "0" is "".
std::string without_leading_zeros(const std::string& number) {
  const auto first = number.find_first_not_of('0');
  return first == std::string::npos ? "" : number.substr(first);
}

bool is_pbsdsh_task(const Environment& env) {
  if (!env.has("PBS_VNODENUM") && !env.has("PBS_NODENUM")) {
    return false;
  }
  // The batch script is task 1 of node 0. OpenPBS writes the task in hexadecimal with the node in
  // its top bits, "A0000001", and TORQUE writes it in decimal: it is compared as text.
  const std::string task = without_leading_zeros(env.get("PBS_TASKNUM").value_or("1"));
  const std::string node = without_leading_zeros(env.get("PBS_NODENUM").value_or("0"));
  return (task != "" && task != "1") || node != "";
}

}  // namespace

Starter find_starter(const Environment& env) {
  if (env.has("RANK") || env.has("WORLD_SIZE")) {
    return Starter::kVariables;
  }
  if (env.has("OMPI_COMM_WORLD_RANK")) {  // First: srun may have started mpirun or its daemons.
    return Starter::kOpenMpi;
  }
  if (is_slurm_step(env)) {
    return is_hydra_in_step(env) ? Starter::kPmi : Starter::kSlurm;
  }
  if (env.has("PMI_RANK")) {
    return Starter::kPmi;
  }
  return is_pbsdsh_task(env) ? Starter::kPbsdsh : Starter::kNobody;
}

}  // namespace lockstep::cluster
