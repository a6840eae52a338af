#include "lockstep/launch/run.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/abandoned_files.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/command/flags.h"
#include "lockstep/launch/context.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {
namespace {

constexpr const char* kIntroduction =
    "lockstep run [FLAGS] PROGRAM [ARGS...]\n"
    "Starts PROGRAM once per rank, in torchrun's place. *.py and modules run with python3.\n"
    "Flags may be written with - or _, and are also read from torchrun's PET_* variables.\n"
    "Run once on each node by srun, mpirun or pbsdsh, it finds the nodes by itself: give no flag\n"
    "about them.\n\n";

constexpr const char* kExamples =
    "\nAliases: --nodes --gpus --nr (nnodes, nproc-per-node, node-rank), --gpu-idx (gpu-ids).\n"
    "Exit code: that of the first worker that failed, 128 + n for a signal; 2 for wrong flags.\n\n"
    "  lockstep run --nproc-per-node 2 ./train --epochs 3\n"
    "  lockstep run --nproc-per-node gpu --max-restarts 3 --log-dir logs train.py\n"
    "  lockstep run --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 ./train   # and 1 on the "
    "other\n"
    "  srun --ntasks-per-node=1 lockstep run --nproc-per-node 4 ./train       # all nodes of a "
    "Slurm "
    "job\n";

// A worker takes up to five descriptors of the launcher. If the limit cannot be raised, starting a
// worker reports it.
void allow_descriptors_for(int workers) {
  rlimit limit{};
  const rlim_t wanted = 64 + 5 * static_cast<rlim_t>(workers);
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min(limit.rlim_max, wanted);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Prints what the scheduler's variables said, once per job.
void show_nodes(const NodeOptions& nodes) {
  if (!nodes.found_by.empty() && nodes.rank == 0) {
    write_all(STDERR_FILENO, "lockstep run: " + nodes.found_by + ": " +
                                 std::to_string(nodes.count) + " nodes, master " +
                                 to_text(nodes.endpoint) + "\n");
  }
}

}  // namespace

int run(const std::vector<std::string>& arguments, const RunSetup& setup) {
  Context context;
  context.environment = Environment::of_this_process();
  context.machine = this_machine(context.environment);
  context.options = parse_run_options(arguments, context.environment, context.machine);
  if (context.options.help) {
    write_all(STDOUT_FILENO, kIntroduction + describe_flags() + kExamples);
    return 0;
  }
  context.program = find_program(context.options, context.environment);
  const std::string store =
      setup.store_program.empty() ? setup.folder + "/lockstep-store" : setup.store_program;
  context.store_program = ::access(store.c_str(), X_OK) == 0 ? store : "";
  context.options.logs.named_by_worker =
      setup.worker_names_logs && context.options.logs.folder.empty();
  allow_descriptors_for(context.options.workers);
  const Signals signals(context.options.signals);
  context.signals = &signals;
  context.folder = choose_run_folder(context.options, context.environment);
  if (!context.folder.temporary && context.options.logs.folder.empty()) {
    write_all(STDERR_FILENO, "lockstep run: logs go to " + context.folder.path + "\n");
  }
  show_nodes(context.options.nodes);
  const int exit_code = supervise(context);
  // Workers that were killed have left theirs.
  remove_abandoned_files(kMemoryCacheFolder, kMemoryCachePrefix);
  return exit_code;
}

}  // namespace lockstep::launch
