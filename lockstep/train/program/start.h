// Who runs the ranks: this process alone, as one of a job, or as the launcher of others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/comm/backend_registry.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/launch/command/machine.h"
#include "lockstep/train/program/flags.h"

namespace lockstep::train {

// `backends` with one for CPU tensors added where it has none ("nccl"): what ranks tell each other
// beside gradients is there. Throws UsageError as BackendRegistry::parse().
std::string with_cpu_backend(const std::string& backends, const BackendRegistry& registry);

// Whether ranks on a machine with GPUs use them with a backend that does not let several ranks use
// one. Throws UsageError as BackendRegistry::parse().
bool needs_a_gpu_for_each_rank(const std::string& backends, const BackendRegistry& registry);

// What a machine offers to the ranks of a job: no GPUs if only the backend that was not built in
// would use them. `warning` says so then; empty otherwise. Throws UsageError if `job` names GPUs.
struct Offer {
  launch::Machine machine;
  std::string warning;
};
Offer offer_of(const launch::Machine& machine, const JobConfig& job,
               const BackendRegistry& registry);

// A variable that `lockstep train` sets for the ranks that it starts: the flags that they get with
// the rest of its command line were obeyed by it.
inline constexpr const char* kOwnRanks = "LOCKSTEP_TRAIN_RANKS";

enum class StartedBy {
  kNobody,       // Alone, so far.
  kOwnLauncher,  // As a rank, by `lockstep train`.
  kOther,        // As a rank, by torchrun, srun, mpirun, lockstep run, ...
};
StartedBy started_by(bool is_launched, const Environment& environment);

// The arguments of `lockstep run` that start the ranks of this job, up to the program; nothing if
// this process is a rank itself. `gpus` is how many there are. Throws UsageError if flags
// contradict each other, the environment or the machine, and for those that would be ignored,
// because something else started this rank.
//
// It does not look at what the machine can bear: see require_few_ranks().
std::optional<std::vector<std::string>> launch_arguments(const JobConfig& job, StartedBy by,
                                                         int local_ranks, int gpus);

// How many ranks `job` has on this machine, and on all of its machines if each has as many.
int ranks_here(const JobConfig& job, int gpus);
int ranks_of_job(const JobConfig& job, int gpus);

// Throws UsageError for more ranks than GPUs that are also more than 64 and more than 16 for each
// core: they would take the memory and the processes of the whole machine.
void require_few_ranks(int ranks, const launch::Machine& machine);

// Each rank reads the file of --config again. Throws UsageError for a pipe, say, which only the
// first could read.
void require_file_for_ranks(const std::string& config_file);

InitOptions init_options(const JobConfig& job);

}  // namespace lockstep::train
