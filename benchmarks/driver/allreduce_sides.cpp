#include "benchmarks/driver/allreduce_sides.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

using Command = std::vector<std::string>;

Command c10d_command(const SidesOptions& options, const std::string& backend) {
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

Command mpi_command(const SidesOptions& options) {
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

AllreduceSides::AllreduceSides(const SidesOptions& options) : ranks_(options.ranks) {
  for (const std::string backend : {"shm", "gloo"}) {
    sides_[backend] = std::make_unique<RankGroup>(options.ranks, c10d_command(options, backend));
  }
  if (!options.mpirun.empty()) {
    sides_["mpi"] = std::make_unique<RankGroup>(options.ranks, mpi_command(options));
  }
}

RankGroup* AllreduceSides::side_of(Contender contender) const {
  const char* side = contender == kGloo ? "gloo" : contender == kMpi ? "mpi" : "shm";
  const auto found = sides_.find(side);
  return found == sides_.end() ? nullptr : found->second.get();
}

std::vector<double> AllreduceSides::measure(RankGroup& side, const AllreduceOrder& order) const {
  const std::string words =
      order.contender + " " + std::to_string(order.bytes) + " " + std::to_string(order.repetitions);
  side.tell(words);
  const std::string answer = side.answer();
  const auto result = nlohmann::json::parse(answer);
  if (result.at("contender") != order.contender || result.at("bytes") != order.bytes ||
      result.at("checked") != ranks_ * order.repetitions) {
    side.reject("were to do and to check '" + words + "' and answered '" + answer + "'");
  }
  return result.at("seconds");
}

void AllreduceSides::finish() {
  for (const auto& [name, side] : sides_) {
    side->finish();
  }
}

}  // namespace lockstep::bench
