// `lockstep bench allreduce`: ours, Gloo, Open MPI and the machine's copy speed in one run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "benchmarks/driver/allreduce_jobs.h"
#include "benchmarks/driver/allreduce_result.h"
#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/text/text.h"

namespace lockstep::bench {
namespace {

struct AllreduceOptions {
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::size_t> sizes{4, 1 << 10, 64 << 10, 1 << 20, 25 << 20, 100 << 20};
  int rounds = 5;
  std::string mpirun;
  std::string spoiled;
  bool json = false;
};

// How long a contender may repeat an operation when it is its turn; and how often at most.
constexpr double kTurnSeconds = 0.05;
constexpr int kMostRepetitions = 50;
// From here on a cold start no longer shows, and a repetition costs more than it tells.
constexpr double kLongSeconds = 0.2;

// Ours have an arena each, a buffer to stage from and one to copy to; the peers one each, and as
// much again inside.
constexpr std::size_t kBuffersPerRank = 8;
constexpr std::int64_t kLargestBytes = std::int64_t{4} << 30;  // MPI counts elements in an int.

void require_memory(const AllreduceOptions& options) {
  const auto ranks = static_cast<std::size_t>(*std::ranges::max_element(options.ranks));
  const std::size_t largest = *std::ranges::max_element(options.sizes);
  const auto free = free_memory();
  const std::size_t needed = kBuffersPerRank * ranks * largest;
  if (needed > free.bytes) {
    throw UsageError("allreduce: " + std::to_string(ranks) + " ranks with buffers of " +
                     size_text(largest) + " need " + size_text(needed) + ", but " +
                     free.limited_by + " has " + size_text(free.bytes) +
                     " left; take fewer --ranks or smaller --sizes");
  }
}

// One turn of one contender; its first operation finds cold caches and sleeping ranks, and is left
// out where there are others.
double median_of_turn(std::vector<double> seconds, int ranks, Measured& measured) {
  const int operations = static_cast<int>(seconds.size());
  measured.operations += operations;
  measured.checked += operations * ranks;
  if (seconds.size() > 1) {
    seconds.erase(seconds.begin());
  }
  measured.samples += static_cast<int>(seconds.size());
  return median(seconds);
}

int repetitions_for(double seconds) {
  const int more = static_cast<int>(std::min<double>(kMostRepetitions, kTurnSeconds / seconds));
  return seconds > kLongSeconds ? 1 : 1 + std::max(1, more);
}

// Every round, each contender has one turn for each size. A round that does not count comes first:
// it touches all memory and tells how often an operation can be repeated.
void measure(const AllreduceJobs& jobs, int rounds, std::vector<AllreduceRow>& rows) {
  std::map<const Measured*, int> repetitions;
  for (int round = 0; round <= rounds; ++round) {
    for (auto& row : rows) {
      for (std::size_t i = 0; i < kContenders; ++i) {
        const std::size_t contender = round % 2 == 0 ? i : kContenders - 1 - i;
        auto* job = jobs.job_of(static_cast<Contender>(contender));
        if (job == nullptr) {
          continue;
        }
        auto& measured = row.measured[contender];
        const AllreduceOrder order{kContenderNames[contender].name, row.bytes,
                                   round == 0 ? 2 : repetitions[&measured]};
        const double seconds = median_of_turn(jobs.measure(*job, order), row.ranks, measured);
        if (round == 0) {
          repetitions[&measured] = repetitions_for(seconds);
          measured.samples = 0;
        } else {
          measured.rounds.push_back(seconds);
        }
      }
    }
  }
}

void allreduce(const AllreduceOptions& options) {
  require_memory(options);
  if (!options.json) {
    print_allreduce_header(options.rounds);
  }
  for (const int ranks : options.ranks) {
    std::vector<AllreduceRow> rows;
    for (const std::size_t bytes : options.sizes) {
      rows.push_back({.ranks = ranks, .bytes = bytes});
    }
    AllreduceJobs jobs({.ranks = ranks,
                        .largest_bytes = *std::ranges::max_element(options.sizes),
                        .mpirun = options.mpirun,
                        .spoiled = options.spoiled});
    measure(jobs, options.rounds, rows);
    jobs.finish();
    for (const auto& row : rows) {
      options.json ? print_allreduce_json(row) : print_allreduce_row(row);
    }
  }
  if (!options.json) {
    std::printf("\n%s", kAllreduceNotes);
    if (options.mpirun.empty()) {
      std::puts(
          "Open MPI took no part. It does where lockstep was built with it: as root, apt-get "
          "install "
          "openmpi-bin libopenmpi-dev; then configure and build again.");
    }
  }
}

std::string fault_of_size(const std::string& text) {
  const auto bytes = parse_int(text);
  const bool fits = bytes && *bytes >= 4 && *bytes <= kLargestBytes && *bytes % 4 == 0;
  return fits ? "" : text + " bytes: expected a multiple of 4 up to 4G, for float32";
}

}  // namespace

void add_allreduce(CLI::App& app) {
  const auto options = std::make_shared<AllreduceOptions>();
  options->mpirun = LOCKSTEP_MPIRUN;
  auto* command = app.add_subcommand(
      "allreduce", "sums over the ranks of one machine, beside Gloo, Open MPI and plain copies");
  command->add_option("--ranks", options->ranks, "numbers of ranks, each 2 to 64")
      ->delimiter(',')
      ->check(CLI::Range(2, 64))
      ->option_text("2,4,8");
  command->add_option("--sizes", options->sizes, "bytes per rank; K, M and G are powers of 1024")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Validator(fault_of_size, "", "float32"))
      ->option_text("4,1K,64K,1M,25M,100M");
  command->add_option("--rounds", options->rounds, "turns of each contender; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--mpirun", options->mpirun, "Open MPI's; '' leaves it out")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per row, times in seconds");
  command->add_option("--spoil", options->spoiled)->group("");  // For tests: see ranks.cpp.
  command->footer(kAllreduceNotes);
  command->callback([options] { allreduce(*options); });
}

}  // namespace lockstep::bench
