#include "benchmarks/driver/allreduce_jobs.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

using Command = std::vector<std::string>;

Command c10d_command(const AllreduceJobsOptions& options, const std::string& backend) {
  const auto folder = program_folder();
  return {folder / "lockstep",
          "run",
          "--nproc-per-node",
          std::to_string(options.ranks),
          folder / "benchmarks/allreduce_ranks",
          backend,
          "{orders}",
          std::to_string(options.largest_bytes),
          options.spoiled};
}

Command mpi_command(const AllreduceJobsOptions& options) {
  Command command{options.mpirun, "-n", std::to_string(options.ranks), "--oversubscribe"};
  if (::geteuid() == 0) {
    command.emplace_back("--allow-run-as-root");
  }
  if (options.ranks > usable_cores()) {  // Else it spins on the core that the awaited rank needs.
    command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  command.insert(command.end(), {program_folder() / "benchmarks/mpi_allreduce", "{orders}",
                                 std::to_string(options.largest_bytes), options.spoiled});
  return command;
}

}  // namespace

AllreduceJobs::AllreduceJobs(const AllreduceJobsOptions& options) : ranks_(options.ranks) {
  for (const std::string backend : {"shm", "gloo"}) {
    jobs_[backend] = std::make_unique<RankGroup>(options.ranks, c10d_command(options, backend));
  }
  if (!options.mpirun.empty()) {
    jobs_["mpi"] = std::make_unique<RankGroup>(options.ranks, mpi_command(options));
  }
}

RankGroup* AllreduceJobs::job_of(Contender contender) const {
  const char* job = contender == kGloo ? "gloo" : contender == kMpi ? "mpi" : "shm";
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.get();
}

std::vector<double> AllreduceJobs::measure(RankGroup& job, const AllreduceOrder& order) const {
  const std::string words =
      order.contender + " " + std::to_string(order.bytes) + " " + std::to_string(order.repetitions);
  job.tell(words);
  const std::string answer = job.answer();
  const auto result = nlohmann::json::parse(answer);
  if (result.at("contender") != order.contender || result.at("bytes") != order.bytes ||
      result.at("checked") != ranks_ * order.repetitions) {
    job.reject("were to do and to check '" + words + "' and answered '" + answer + "'");
  }
  return result.at("seconds");
}

void AllreduceJobs::finish() {
  for (const auto& [name, job] : jobs_) {
    job->finish();
  }
}

}  // namespace lockstep::bench
