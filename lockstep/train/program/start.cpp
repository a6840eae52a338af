#include "lockstep/train/program/start.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

void require_consistent(const JobConfig& job, int gpus) {
  if (job.nproc < 0 || job.nodes < 1 || job.max_restarts < 0 || job.timeout_seconds < 1) {
    throw UsageError(
        "--nproc and --max-restarts must be 0 or more, --nodes and --timeout 1 or more");
  }
  if (job.node_rank < 0 || job.node_rank >= job.nodes) {
    throw UsageError("--nr is " + std::to_string(job.node_rank) + ", expected 0 to " +
                     std::to_string(job.nodes - 1) + ", less than --nodes");
  }
  if (gpus > 0 && job.nproc > gpus && !contains(job.backend, "gloo") &&
      !contains(job.backend, "shm") && job.backend != "lockstep") {
    throw UsageError("--gpus is " + std::to_string(job.nproc) + ", but this machine has " +
                     std::to_string(gpus) + "; HINT: --gpus " + std::to_string(gpus) +
                     ", or CUDA_VISIBLE_DEVICES= to train on the CPU");
  }
}

}  // namespace

std::optional<std::vector<std::string>> launch_arguments(const JobConfig& job, bool is_launched,
                                                         int local_ranks, int gpus) {
  if (!job.dist_url.empty()) {
    if (job.rank < 0 || job.world_size < 1) {
      throw UsageError("--dist-url needs --rank and --world-size of this process");
    }
    return std::nullopt;
  }
  if (is_launched) {
    if (job.nproc > 1 && local_ranks > 0 && job.nproc != local_ranks) {
      throw UsageError("--nproc " + std::to_string(job.nproc) +
                       " starts ranks, but this process is one of " + std::to_string(local_ranks) +
                       " already, of another launcher; leave it out");
    }
    return std::nullopt;
  }
  require_consistent(job, gpus);
  const int ranks = job.nproc > 0 ? job.nproc : std::max(1, gpus);
  if (ranks == 1 && job.nodes == 1 && job.max_restarts == 0) {
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
  if (job.max_restarts > 0) {
    add("--max-restarts", std::to_string(job.max_restarts));
  }
  arguments.emplace_back("--no-python");
  return arguments;
}

InitOptions init_options(const JobConfig& job) {
  InitOptions options;
  options.backend = job.backend;
  options.timeout = std::chrono::seconds(job.timeout_seconds);
  if (!job.dist_url.empty()) {
    options.init_method = job.dist_url;
    options.rank = job.rank;
    options.world_size = job.world_size;
  }
  return options;
}

}  // namespace lockstep::train
