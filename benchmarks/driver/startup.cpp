// `lockstep bench startup`: how long a job takes to start, beside torchrun.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

struct StartupOptions {
  int runs = 5;
  int ranks = 2;
  std::string python;
  bool json = false;
};

struct Row {
  std::string what;
  std::vector<std::string> ours;
  std::vector<std::string> peer;
  std::vector<double> our_seconds;
  std::vector<double> peer_seconds;
  int peer_repeated = 0;  // Runs of the peer that failed and were started again.
};

constexpr std::chrono::seconds kLimit{120};
constexpr int kMostRepeats = 5;  // For a row.

// PyTorch's toy program sometimes aborts at its end ("terminate called without an active
// exception": one of four runs on a 2-core ARM machine, torch 2.15). Such a run is repeated and
// counted; a failure of ours never is.
double timed_peer_run(Row& row) {
  while (true) {
    try {
      return timed_run(row.peer, kLimit);
    } catch (const Error&) {
      if (row.peer_repeated == kMostRepeats) {
        throw;
      }
      ++row.peer_repeated;
    }
  }
}

// A start of each side in turn, so that both see the same noise.
void measure(std::vector<Row>& rows, int runs) {
  for (int run = 0; run < runs; ++run) {
    for (auto& row : rows) {
      row.our_seconds.push_back(timed_run(row.ours, kLimit));
      row.peer_seconds.push_back(timed_peer_run(row));
    }
  }
}

void print_table(const std::vector<Row>& rows, const StartupOptions& options) {
  std::printf("start-up of %d ranks, medians of %d interleaved runs, %d cores\n\n", options.ranks,
              options.runs, usable_cores());
  std::printf("%-28s %14s %14s %8s\n", "", "lockstep run", "torchrun", "ratio");
  for (const auto& row : rows) {
    const double ours = median(row.our_seconds);
    const double peer = median(row.peer_seconds);
    std::printf("%-28s %12.1f ms %12.1f ms %7.1fx\n", row.what.c_str(), ours * 1e3, peer * 1e3,
                peer / ours);
  }
  for (const auto& row : rows) {
    if (row.peer_repeated > 0) {
      std::printf("%s: torchrun failed and was started again %d time%s\n", row.what.c_str(),
                  row.peer_repeated, row.peer_repeated == 1 ? "" : "s");
    }
  }
}

void print_json(const std::vector<Row>& rows, const StartupOptions& options) {
  for (const auto& row : rows) {
    const nlohmann::json line = {{"bench", "startup"},
                                 {"row", row.what},
                                 {"ranks", options.ranks},
                                 {"cores", usable_cores()},
                                 {"ours_s", row.our_seconds},
                                 {"torchrun_s", row.peer_seconds},
                                 {"torchrun_repeated", row.peer_repeated},
                                 {"ratio", median(row.peer_seconds) / median(row.our_seconds)}};
    std::printf("%s\n", line.dump().c_str());
  }
}

void startup(const StartupOptions& options) {
  const std::string lockstep = program_folder() / "lockstep";
  const std::string toy = program_folder() / "examples/toy_step";
  const std::string ranks = std::to_string(options.ranks);
  const std::vector<std::string> ours{lockstep, "run", "--nproc-per-node", ranks};
  const std::vector<std::string> torchrun{
      options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  std::vector<Row> rows;
  rows.push_back({"/bin/true",
                  with(ours, {"/bin/true"}),
                  with(torchrun, {"--no-python", "/bin/true"}),
                  {},
                  {}});
  rows.push_back({"one step of the toy model",
                  with(ours, {toy}),
                  with(torchrun, {peer_program("toy.py")}),
                  {},
                  {}});
  measure(rows, options.runs);
  options.json ? print_json(rows, options) : print_table(rows, options);
}

}  // namespace

void add_startup(CLI::App& app) {
  const auto options = std::make_shared<StartupOptions>();
  options->python = LOCKSTEP_BENCH_PYTHON;
  auto* command = app.add_subcommand("startup", "how long a job takes to start, beside torchrun");
  command->add_option("--runs", options->runs, "runs of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "ranks of each job")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--python", options->python, "a Python that has torch")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per row");
  command->callback([options] { startup(*options); });
}

}  // namespace lockstep::bench
