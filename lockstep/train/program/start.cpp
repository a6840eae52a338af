#include "lockstep/train/program/start.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/gpu_choice.h"

namespace lockstep::train {
namespace {

constexpr int kAlwaysAllowedRanks = 64;  // For tests of large jobs on small machines.
constexpr int kMostRanksOfACore = 16;

int number_of_gpu_ids(const JobConfig& job) {
  return job.gpu_ids.empty() ? 0 : static_cast<int>(split(job.gpu_ids, ',').size());
}

// Those that a launcher obeys, as far as they were given.
std::vector<std::string> launcher_flags(const JobConfig& job) {
  std::vector<std::string> flags;
  const auto add = [&](bool is_given, const char* flag) {
    if (is_given) {
      flags.emplace_back(flag);
    }
  };
  add(job.nodes != 1, "--nodes");
  add(job.node_rank != 0, "--nr");
  add(!job.master_addr.empty(), "--master-addr");
  add(job.master_port != 0, "--master-port");
  add(job.max_restarts != 0, "--max-restarts");
  add(job.join_timeout_seconds != 0, "--join-timeout");
  add(!job.log_dir.empty(), "--log-dir");
  add(job.shutdown_timeout_seconds != 0, "--shutdown-timeout");
  return flags;
}

// The flags of a process that joins others by itself.
void require_consistent_url(const JobConfig& job) {
  if (job.rank < 0 || job.world_size < 1) {
    throw UsageError("--dist-url needs --rank and --world-size of this process; HINT: --dist-url " +
                     job.dist_url + " --rank 0 --world-size 2");
  }
  if (job.rank >= job.world_size) {
    throw UsageError("--rank is " + std::to_string(job.rank) + ", expected 0 to " +
                     std::to_string(job.world_size - 1) +
                     ", less than --world-size; HINT: ranks are counted from 0");
  }
  const auto refuse = [](const std::string& flag) {
    throw UsageError(flag +
                     " is given with --dist-url, by which each process is one rank and starts no "
                     "other; HINT: leave " +
                     flag + " out, or --dist-url");
  };
  if (job.nproc > 1) {
    refuse("--nproc");
  }
  for (const auto& flag : launcher_flags(job)) {
    refuse(flag);
  }
  if (!job.gpu_ids.empty()) {
    throw UsageError(
        "--gpu-ids is given with --dist-url, by which each process uses the GPU of its place on "
        "this machine; HINT: CUDA_VISIBLE_DEVICES=" +
        job.gpu_ids);
  }
}

// The flags of a rank that something else started, which has decided already what they are about.
void require_nothing_ignored(const JobConfig& job, int local_ranks) {
  if (job.nproc > 1 && local_ranks > 0 && job.nproc != local_ranks) {
    throw UsageError("--nproc " + std::to_string(job.nproc) +
                     " starts ranks, but this process is one of " + std::to_string(local_ranks) +
                     " already, of another launcher; HINT: leave it out");
  }
  if (!job.gpu_ids.empty()) {
    throw UsageError(
        "--gpu-ids is given to a rank that another launcher started, by which each rank uses the "
        "GPU of its place on its machine; HINT: CUDA_VISIBLE_DEVICES=" +
        job.gpu_ids + " for that launcher");
  }
  auto flags = launcher_flags(job);
  if (job.rank >= 0) {
    flags.emplace_back("--rank");
  }
  if (job.world_size > 0) {
    flags.emplace_back("--world-size");
  }
  if (!flags.empty()) {
    throw UsageError(flags.front() +
                     " would be ignored: another launcher started this rank and told it who takes "
                     "part; HINT: leave " +
                     join(flags, ", ") + " out, here and in the file of --config, or give it to " +
                     "that launcher");
  }
}

void require_consistent(const JobConfig& job, int gpus) {
  if (job.rank != -1 || job.world_size != 0) {
    throw UsageError(
        "--rank and --world-size are for --dist-url, which is not given; HINT: --dist-url "
        "tcp://HOST:PORT, or --nproc to start the ranks");
  }
  if (job.nproc < 0 || job.nodes < 1 || job.max_restarts < 0 || job.join_timeout_seconds < 0 ||
      job.shutdown_timeout_seconds < 0) {
    throw UsageError(
        "--nproc, --max-restarts, --join-timeout and --shutdown-timeout must be 0 or more, --nodes "
        "1 or more; HINT: leave them out for what fits this machine");
  }
  if (job.node_rank < 0 || job.node_rank >= job.nodes) {
    throw UsageError("--nr is " + std::to_string(job.node_rank) + ", expected 0 to " +
                     std::to_string(job.nodes - 1) +
                     ", less than --nodes; HINT: machines are counted from 0");
  }
  if (job.nproc > 0 && number_of_gpu_ids(job) > 0 && job.nproc != number_of_gpu_ids(job)) {
    throw UsageError("--nproc is " + std::to_string(job.nproc) + ", but --gpu-ids has " +
                     std::to_string(number_of_gpu_ids(job)) +
                     " GPUs, expected one for each rank; HINT: leave --nproc out");
  }
  if (gpus > 0 && job.nproc > gpus && !comm::nccl_shares_gpus(Environment::of_this_process()) &&
      needs_a_gpu_for_each_rank(job.backend, BackendRegistry::built_in())) {
    throw UsageError("--gpus is " + std::to_string(job.nproc) + ", but this machine has " +
                     std::to_string(gpus) + "; HINT: --gpus " + std::to_string(gpus) +
                     ", or CUDA_VISIBLE_DEVICES= to train on the CPU");
  }
}

}  // namespace

std::string with_cpu_backend(const std::string& backends, const BackendRegistry& registry) {
  if (backends.empty()) {
    return backends;  // The default has one.
  }
  const auto parsed = registry.parse(backends);
  std::vector<std::string> parts{"cpu:lockstep"};
  for (const auto& [device, name] : parsed) {
    if (device == c10::kCPU) {
      return backends;
    }
    parts.push_back("cuda:" + name);
  }
  return join(parts, ",");
}

bool needs_a_gpu_for_each_rank(const std::string& backends, const BackendRegistry& registry) {
  if (backends.empty()) {
    return true;  // The default for GPUs is nccl.
  }
  const auto parsed = registry.parse(backends);
  return std::any_of(parsed.begin(), parsed.end(), [&](const auto& one) {
    const auto& [device, name] = one;
    return device == c10::kCUDA && !registry.capabilities(name).contains(Capability::kSharesGpus);
  });
}

Offer offer_of(const launch::Machine& machine, const JobConfig& job,
               const BackendRegistry& registry) {
  if (machine.visible_gpus == 0 || !job.backend.empty() || registry.has("nccl")) {
    return {machine, ""};
  }
  const std::string why = "this lockstep was built without CUDA";
  const std::string hint =
      "; HINT: build it where a CUDA toolkit is installed (cmake -DLOCKSTEP_CUDA=ON names what is "
      "missing)";
  if (!job.gpu_ids.empty()) {
    throw UsageError("--gpu-ids is '" + job.gpu_ids + "', but " + why + hint);
  }
  const auto gpus = machine.visible_gpus == 1 ? "the GPU of this machine is"
                                              : "the " + std::to_string(machine.visible_gpus) +
                                                    " GPUs of this machine are";
  auto without = machine;
  without.visible_gpus = 0;
  return {without, why + ", so " + gpus + " not used" + hint};
}

StartedBy started_by(bool is_launched, const Environment& environment) {
  return !is_launched                 ? StartedBy::kNobody
         : environment.has(kOwnRanks) ? StartedBy::kOwnLauncher
                                      : StartedBy::kOther;
}

std::optional<std::vector<std::string>> launch_arguments(const JobConfig& job, StartedBy by,
                                                         int local_ranks, int gpus) {
  if (job.timeout_seconds < 1) {  // Also checked in a rank that is launched already.
    throw UsageError("--timeout is " + std::to_string(job.timeout_seconds) +
                     ", expected 1 second or more; HINT: leave it out for 1800");
  }
  if (job.master_port < 0 || job.master_port > 65535) {
    throw UsageError("--master-port is " + std::to_string(job.master_port) +
                     ", expected 1 to 65535; HINT: leave it out for 29500");
  }
  if (!job.dist_url.empty()) {
    require_consistent_url(job);
    return std::nullopt;
  }
  if (by == StartedBy::kOther) {
    require_nothing_ignored(job, local_ranks);
  }
  if (by != StartedBy::kNobody) {
    return std::nullopt;
  }
  require_consistent(job, gpus);
  const int ids = number_of_gpu_ids(job);
  const int ranks = ranks_here(job, gpus);
  // The launcher alone lets a rank see certain GPUs, keeps what it prints in a folder, or ends one
  // that takes too long to save.
  if (ranks == 1 && job.nodes == 1 && job.max_restarts == 0 && ids == 0 && job.log_dir.empty() &&
      job.shutdown_timeout_seconds == 0) {
    return std::nullopt;
  }
  std::vector<std::string> arguments{"--nproc-per-node", std::to_string(ranks)};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (job.nodes > 1) {
    add("--nnodes", std::to_string(job.nodes));
    add("--node-rank", std::to_string(job.node_rank));
  }
  if (!job.master_addr.empty()) {
    add("--master-addr", job.master_addr);
  }
  if (job.master_port > 0) {
    add("--master-port", std::to_string(job.master_port));
  }
  if (!job.gpu_ids.empty()) {
    add("--gpu-ids", job.gpu_ids);
  }
  if (job.join_timeout_seconds > 0) {
    add("--join-timeout", std::to_string(job.join_timeout_seconds));
  }
  if (!job.log_dir.empty()) {
    add("--log-dir", job.log_dir);
  }
  if (job.shutdown_timeout_seconds > 0) {
    add("--shutdown-timeout", std::to_string(job.shutdown_timeout_seconds));
  }
  if (job.max_restarts > 0) {
    add("--max-restarts", std::to_string(job.max_restarts));
    // Wrong flags, a stop that could not be saved, and stops in order by SIGHUP, SIGINT, SIGTERM.
    add("--no-restart-on", "2,74,129,130,143");
  }
  arguments.emplace_back("--no-python");
  return arguments;
}

int ranks_here(const JobConfig& job, int gpus) {
  const int ids = number_of_gpu_ids(job);
  return job.nproc > 0 ? job.nproc : ids > 0 ? ids : std::max(1, gpus);
}

int ranks_of_job(const JobConfig& job, int gpus) {
  return job.dist_url.empty() ? ranks_here(job, gpus) * job.nodes : job.world_size;
}

void require_few_ranks(int ranks, const launch::Machine& machine) {
  const int most = std::max(kAlwaysAllowedRanks, kMostRanksOfACore * machine.cores);
  if (ranks > most && ranks > machine.gpus) {
    throw UsageError("--nproc is " + std::to_string(ranks) + ", expected at most " +
                     std::to_string(most) + " ranks on this machine, which has " +
                     counted(machine.cores, "usable core") + "; HINT: --nproc " +
                     std::to_string(machine.cores) + ", one for each usable core");
  }
}

void require_file_for_ranks(const std::string& config_file) {
  std::error_code error;
  if (std::filesystem::exists(config_file, error) &&
      !std::filesystem::is_regular_file(config_file, error)) {
    throw UsageError("--config: '" + config_file +
                     "' is no file that each rank could read again; HINT: write it to a file, or "
                     "--nproc 1");
  }
}

InitOptions init_options(const JobConfig& job) {
  InitOptions options;
  options.backend = with_cpu_backend(job.backend, BackendRegistry::built_in());
  options.timeout = std::chrono::seconds(job.timeout_seconds);
  if (!job.dist_url.empty()) {
    options.init_method = job.dist_url;
    options.rank = job.rank;
    options.world_size = job.world_size;
  }
  return options;
}

}  // namespace lockstep::train
