#include "lockstep/train/main.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/heap.h"
#include "lockstep/base/process/crash_report.h"
#include "lockstep/base/process/stop_notice.h"
#include "lockstep/base/text/text.h"
#include "lockstep/cluster/discover.h"
#include "lockstep/comm/store_server.h"
#include "lockstep/launch/command/machine.h"
#include "lockstep/launch/run.h"
#include "lockstep/train/program/flags.h"
#include "lockstep/train/program/start.h"
#include "lockstep/train/run/stop_request.h"
#include "lockstep/train/session/choose_network.h"

namespace lockstep::train {
namespace {

void print_error(const char* what) { std::fprintf(stderr, "lockstep train: %s\n", what); }

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    throw IoError("/proc/self/exe cannot be read: " + error.message());
  }
  return path.string();
}

int run(int argc, char** argv, const Networks& networks) {
  auto line = parse_command_line(argc, argv, network_names(networks));
  if (line.exit_code) {
    return *line.exit_code;
  }
  require_sensible(line.train);
  if (line.train.eval_only || line.train.dry_run) {
    let_stop_notice_in();  // They have nothing to save.
  }
  const auto environment = Environment::of_this_process();
  const auto [machine, warning] =
      offer_of(launch::this_machine(environment), line.job, BackendRegistry::built_in());
  const int gpus = machine.visible_gpus;
  const auto member = cluster::discover(environment, ::getppid());
  const auto by = started_by(member.launched, environment);
  // Ranks of its own launcher would say it again, and one of any other is enough.
  const bool says_so = by == StartedBy::kNobody || (by == StartedBy::kOther && member.rank == 0);
  if (says_so && !warning.empty()) {
    print_error(("WARNING: " + warning).c_str());
  }
  auto launch = launch_arguments(line.job, by, member.local_size.value_or(0), gpus);
  if (launch) {
    require_few_ranks(ranks_here(line.job, gpus), machine);
    require_file_for_ranks(line.config_file);
  }
  if (line.train.dry_run && by == StartedBy::kNobody) {
    if (!line.job.gpu_ids.empty()) {
      (void)launch::parse_gpu_ids(line.job.gpu_ids, machine);  // As the launcher would.
    }
    line.train.planned_ranks = ranks_of_job(line.job, gpus);
    line.job.dist_url.clear();  // It waits for nobody.
    launch.reset();
  }
  if (launch) {
    ::setenv(kOwnRanks, "1", /*replace=*/1);
    const auto program = own_path();
    launch->push_back(program);
    launch->insert(launch->end(), argv + 1, argv + argc);
    keep_freed_memory_of_mimalloc();
    return launch::run(*launch, {.folder = std::filesystem::path(program).parent_path().string(),
                                 .store_program = program,
                                 .worker_names_logs = true});
  }
  line.train.started_by = to_toml(line.job);
  return train(line.train, init_process_group(init_options(line.job)), networks);
}

// How long another rank may take from its failure to its end.
constexpr std::chrono::seconds kEndOfAnother{5};

// Under a launcher, and if another rank may be about to end: waits until the launcher has seen that
// and ends this one, too. If this one ended first, the launcher would take it for the root cause
// and stop the other before it has told its reason.
void let_another_end_first(const PeerError& error) {
  const bool has_launcher = Environment::of_this_process().has("TORCHELASTIC_ERROR_FILE");
  const bool was_told_to_stop = StopRequest::was_ever_requested();
  if (has_launcher && !was_told_to_stop && error.cause() == PeerError::Cause::kGone) {
    std::this_thread::sleep_for(kEndOfAnother);
  }
}

constexpr const char* kMemoryHint =
    "HINT: not enough memory: halve --batch-size and double --grad-accum, or --amp bf16";

// LibTorch has no type of its own for this on the CPU, and adds where in its sources it happened.
void print_failure(std::string what) {
  for (const char* backtrace : {"\nException raised from", "\nframe #"}) {
    what.resize(std::min(what.find(backtrace), what.size()));
  }
  print_error(what.c_str());
  tell_launcher(Environment::of_this_process(), what);
  if (contains(what, "DefaultCPUAllocator") || contains(what, "std::bad_alloc")) {
    print_error(kMemoryHint);
  }
}

}  // namespace

int main(int argc, char** argv, const Networks& networks) {
  // The launcher of this job's ranks has this program serve their store, too.
  if (argc == 3 && std::string_view(argv[1]) == comm::kServeStore) {
    return comm::store_main(argc, argv);
  }
  // For the ranks that this process starts, too, from their first moment on.
  hold_back_stop_notice();
  // A file at its limit of size, stdout among them, is an error, and not the end without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv, networks);
  } catch (const UsageError& error) {
    print_error(error.what());
    if (!contains(error.what(), "HINT: ")) {
      print_error("HINT: lockstep train --help lists all flags");
    }
    return 2;
  } catch (const c10::OutOfMemoryError& error) {
    print_failure(error.what_without_backtrace());
    print_error(kMemoryHint);
    return 1;
  } catch (const std::bad_alloc&) {
    print_failure("out of memory");
    print_error(kMemoryHint);
    return 1;
  } catch (const PeerError& error) {
    print_error(error.what());  // The rank that it names tells the launcher.
    let_another_end_first(error);
    return 1;
  } catch (const std::exception& error) {
    print_failure(error.what());
    return 1;
  }
}

}  // namespace lockstep::train
