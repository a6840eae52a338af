// `lockstep bench loader`: batches of ours beside those of PyTorch's DataLoader and torchvision.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/loader_jobs.h"
#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

struct LoaderOptions {
  std::string data;
  std::vector<std::string> rows;
  int rounds = 5;
  int photos = 500;
  int files = 100000;
  std::string python;
  bool json = false;
};

// A line of the table: a row of ours beside one of the peer's.
struct Line {
  std::string title;
  std::string ours;
  std::string peer;
  bool is_time = false;  // Milliseconds instead of samples in a second.
};

// Contenders that take turns with each other.
struct Part {
  std::string name;  // In --rows.
  std::vector<Line> lines;
  std::vector<int> our_workers;
  std::vector<int> peer_workers;
};

const std::vector<Part>& parts() {
  static const std::vector<int> kOurs = {0, -1};
  static const std::vector<int> kPeers = {0, 1, 2, 4};
  static const std::vector<Part> kParts = {
      {"memory", {{"60,000 x 28 x 28 in memory", "memory", "memory"}}, kOurs, kPeers},
      {"photos",
       {{"photographs, exact", "exact", "exact"},
        {"photographs, fast", "fast", "exact"},
        {"photographs, second epoch", "cache", "exact"}},
       kOurs,
       kPeers},
      {"decode", {{"decode JPEG", "decode", "decode"}}, {0}, {0}},
      {"files", {{"files: index", "index", "index", /*is_time=*/true}}, {0}, {0}},
      {"files", {{"files: first batch of 256", "first", "first", /*is_time=*/true}}, kOurs, kPeers},
  };
  return kParts;
}

constexpr const char* kNotes =
    "Samples in a second, or milliseconds, medians of the rounds. 'one core' makes batches in the\n"
    "thread that uses them; 'auto' is num_workers = kAuto; 'best' is the fastest of PyTorch's 0, "
    "1,\n"
    "2 and 4 workers. 'per core' compares the first and the third column, 'ratio' the second and\n"
    "the fourth. The second epoch has decoded images from a cache in memory. Each is a "
    "process\n"
    "of its own, and all take turns.\n";

// A folder that is gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_errno("a folder for files to be loaded, '" + path_ + "'");
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

bool is_asked(const LoaderOptions& options, const std::string& row) {
  return options.rows.empty() || std::ranges::count(options.rows, row) > 0;
}

LoaderFolders make_folders(const LoaderOptions& options, const TemporaryFolder& folder) {
  constexpr std::chrono::seconds kLimit{600};
  const std::string program = program_folder() / "benchmarks/loader_job";
  LoaderFolders folders{.photos = options.data, .files = folder / "files"};
  if (options.data.empty() && (is_asked(options, "decode") || is_asked(options, "photos"))) {
    folders.photos = folder / "photos";
    timed_run({program, "make-photos", folders.photos, std::to_string(options.photos)}, kLimit);
  }
  if (is_asked(options, "files")) {
    timed_run({program, "make-files", folders.files, std::to_string(options.files)}, kLimit);
  }
  return folders;
}

std::vector<LoaderContender> contenders_of(const Part& part) {
  std::vector<LoaderContender> contenders;
  const auto add = [&](bool ours, const std::string& row, const std::vector<int>& workers) {
    for (const int count : workers) {
      const bool known = std::ranges::any_of(contenders, [&](const auto& contender) {
        return contender.ours == ours && contender.row == row && contender.workers == count;
      });
      if (!known) {
        contenders.push_back({.ours = ours, .row = row, .workers = count});
      }
    }
  };
  for (const auto& line : part.lines) {
    add(true, line.ours, part.our_workers);
    add(false, line.peer, part.peer_workers);
  }
  return contenders;
}

struct Result {
  Line line;
  const LoaderContender* our_core = nullptr;
  const LoaderContender* our_auto = nullptr;  // Those of one core where there are no workers.
  const LoaderContender* peer_core = nullptr;
  const LoaderContender* peer_best = nullptr;
};

Result result_of(const Line& line, const std::vector<LoaderContender>& contenders) {
  Result result{.line = line};
  for (const auto& contender : contenders) {
    if (contender.row != (contender.ours ? line.ours : line.peer)) {
      continue;
    }
    if (contender.ours) {
      (contender.workers == 0 ? result.our_core : result.our_auto) = &contender;
      continue;
    }
    if (contender.workers == 0) {
      result.peer_core = &contender;
    }
    const auto seconds = contender.median_seconds();
    if (result.peer_best == nullptr || seconds < result.peer_best->median_seconds()) {
      result.peer_best = &contender;
    }
  }
  if (result.our_auto == nullptr) {
    result.our_auto = result.our_core;
  }
  return result;
}

std::optional<double> ratio(const LoaderContender& ours, const LoaderContender& peer) {
  const auto seconds = peer.median_seconds();
  return seconds ? std::optional(*seconds / *ours.median_seconds()) : std::nullopt;
}

std::string shown(const Line& line, const LoaderContender& contender) {
  const auto seconds = contender.median_seconds();
  if (!seconds) {
    return "-";
  }
  return line.is_time ? number_text(*seconds * 1e3, " ms")
                      : number_text(static_cast<double>(contender.samples) / *seconds);
}

void print_row(const Result& result) {
  std::printf("%-28s %12s %12s %12s %12s %3d %9s %7s\n", result.line.title.c_str(),
              shown(result.line, *result.our_core).c_str(),
              shown(result.line, *result.our_auto).c_str(),
              shown(result.line, *result.peer_core).c_str(),
              shown(result.line, *result.peer_best).c_str(), result.peer_best->workers,
              number_text(ratio(*result.our_core, *result.peer_core), "x").c_str(),
              number_text(ratio(*result.our_auto, *result.peer_best), "x").c_str());
  std::fflush(stdout);
}

void print_json(const Result& result, const std::vector<LoaderContender>& contenders) {
  nlohmann::json entries = nlohmann::json::array();
  for (const auto& contender : contenders) {
    if (contender.row == (contender.ours ? result.line.ours : result.line.peer)) {
      entries.push_back({{"side", contender.ours ? "ours" : "pytorch"},
                         {"workers", contender.workers < 0 ? nlohmann::json("auto")
                                                           : nlohmann::json(contender.workers)},
                         {"samples", contender.samples},
                         {"rounds_s", contender.seconds},
                         {"median_s", as_json(contender.median_seconds())},
                         {"missing", contender.missing}});
    }
  }
  const nlohmann::json row = {
      {"bench", "loader"},
      {"row", result.line.ours},
      {"cores", usable_cores()},
      {"arch", architecture()},
      {"sides", entries},
      {"auto_over_one_core", as_json(ratio(*result.our_auto, *result.our_core))},
      {"per_core", as_json(ratio(*result.our_core, *result.peer_core))},
      {"ratio", as_json(ratio(*result.our_auto, *result.peer_best))}};
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
}

void loader(const LoaderOptions& options) {
  const TemporaryFolder folder;
  LoaderJobs jobs(make_folders(options, folder), options.python);
  std::string missing;
  if (!options.json) {
    std::printf(
        "loading, medians of %d interleaved rounds, %d cores\n\n%-28s %12s %12s %12s %16s "
        "%9s %7s\n",
        options.rounds, usable_cores(), "", "one core", "auto", "PyTorch 0", "best, workers",
        "per core", "ratio");
  }
  for (const auto& part : parts()) {
    if (!is_asked(options, part.name)) {
      continue;
    }
    auto contenders = contenders_of(part);
    jobs.take_turns(contenders, options.rounds);
    for (const auto& line : part.lines) {
      const Result result = result_of(line, contenders);
      options.json ? print_json(result, contenders) : print_row(result);
      missing = result.peer_core->missing.empty() ? missing : result.peer_core->missing;
    }
  }
  jobs.finish();
  if (!options.json) {
    std::printf("\n%s", kNotes);
    if (!missing.empty()) {
      std::printf("PyTorch took no part in some rows: %s\n", missing.c_str());
    }
  }
}

}  // namespace

void add_loader(CLI::App& app) {
  const auto options = std::make_shared<LoaderOptions>();
  options->python = LOCKSTEP_BENCH_PYTHON;
  auto* command =
      app.add_subcommand("loader", "batches of data, beside PyTorch's DataLoader and torchvision");
  command
      ->add_option("--data", options->data,
                   "a folder of JPEGs with a folder for each class; else photographs are made up")
      ->check(CLI::ExistingDirectory)
      ->option_text("DIR");
  command->add_option("--rows", options->rows, "memory, decode, photos, files; all unless given")
      ->delimiter(',')
      ->check(CLI::IsMember({"memory", "decode", "photos", "files"}))
      ->option_text("memory,decode,photos,files");
  command->add_option("--rounds", options->rounds, "turns of each contender; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--photos", options->photos, "how many photographs are made up")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--files", options->files, "how many small files are made")
      ->check(CLI::Range(256, 10000000))
      ->capture_default_str();
  command
      ->add_option("--python", options->python,
                   "a Python that has torch and, for all rows but memory, torchvision; '' leaves "
                   "them out")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per row, times in seconds");
  command->footer(kNotes);
  command->callback([options] { loader(*options); });
}

}  // namespace lockstep::bench
