// `lockstep bench loader`: batches of ours beside those of PyTorch's DataLoader and torchvision.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/loader_jobs.h"
#include "benchmarks/driver/loader_table.h"
#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::bench {
namespace {

struct LoaderOptions {
  std::string data;
  std::vector<std::string> rows;
  int rounds = 5;
  int photos = 500;
  int files = 100000;
  double shortest_turn = 0.5;
  std::string python;
  bool json = false;
};

// Large photographs have ten times the pixels of the others.
constexpr int kSmallForALarge = 10;
constexpr int kFewestLarge = 8;
// SIMD makes whole decoding two to three times as fast.
constexpr double kLeastSimdGain = 1.2;

constexpr const char* kNotes =
    "Samples in a second, or milliseconds, medians of the rounds; ratios are medians of those of\n"
    "single rounds. 'one core' makes batches in the thread that uses them; 'auto' is num_workers\n"
    "= kAuto; 'best' is the fastest of PyTorch's 0, 1, 2 and 4 workers. 'per core' compares the\n"
    "first and the third column, 'ratio' the second and the fourth, 'auto/core' the second and\n"
    "the first. The second epoch has decoded images from a cache in memory. Each side is a\n"
    "process of its own, and all take turns; what takes less than --shortest-turn is repeated for\n"
    "that long, and its first time does not count. Many cores want many photographs: with 16,\n"
    "--photos 8000, else an epoch is over before all workers have begun.\n";

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

bool needs_photos(const LoaderOptions& options) {
  return is_asked(options, "decode") || is_asked(options, "photos");
}

LoaderWork make_folders(const LoaderOptions& options, const TemporaryFolder& folder) {
  constexpr std::chrono::seconds kLimit{600};
  const std::string program = program_folder() / "benchmarks/loader_job";
  LoaderWork folders{.photos = options.data,
                     .files = folder / "files",
                     .large = "",
                     .shortest_turn = options.shortest_turn};
  if (options.data.empty() && needs_photos(options)) {
    folders.photos = folder / "photos";
    timed_run({program, "make-photos", folders.photos, std::to_string(options.photos)}, kLimit);
  }
  if (options.data.empty() && is_asked(options, "large")) {
    const int count = std::max(options.photos / kSmallForALarge, kFewestLarge);
    folders.large = folder / "large";
    timed_run({program, "make-large-photos", folders.large, std::to_string(count)}, kLimit);
  }
  if (is_asked(options, "files")) {
    timed_run({program, "make-files", folders.files, std::to_string(options.files)}, kLimit);
  }
  return folders;
}

void print_json_line(const nlohmann::json& row) { std::printf("%s\n", row.dump().c_str()); }

// Without SIMD the library takes twice as long, and the figures say little.
void tell_decoder(LoaderJobs& jobs, bool as_json) {
  const auto decoder = jobs.decoder();
  if (as_json) {
    print_json_line({{"bench", "loader"},
                     {"row", "decoder"},
                     {"library", decoder.library},
                     {"simd_times_as_fast", decoder.simd_times_as_fast}});
  } else if (decoder.simd_times_as_fast > kLeastSimdGain) {
    std::printf("%s with SIMD, which makes decoding %.1f times as fast\n", decoder.library.c_str(),
                decoder.simd_times_as_fast);
  } else {
    std::printf("%s WITHOUT SIMD: the figures say little\n", decoder.library.c_str());
  }
}

void tell_consumer(LoaderJobs& jobs, const std::string& row, bool as_json) {
  const auto consumer = jobs.consumer(row);
  if (as_json) {
    print_json_line({{"bench", "loader"},
                     {"row", row},
                     {"rate", consumer.rate},
                     {"seconds", consumer.seconds},
                     {"samples", consumer.samples},
                     {"data_wait", consumer.data_wait}});
  } else {
    std::printf("a consumer at %.0f images/s, %s: data wait %.1f %% of its time\n", consumer.rate,
                row == "paced" ? "second epoch" : "photographs, exact", 100 * consumer.data_wait);
  }
  std::fflush(stdout);
}

// How near the loader is to what cannot be left out.
void tell_floor(const std::map<std::string, double>& per_second) {
  const auto loaded = per_second.find("exact");
  const auto floor = per_second.find("entropy");
  if (loaded != per_second.end() && floor != per_second.end()) {
    std::printf("exact on one core has %.0f %% of the speed of entropy decoding alone\n",
                100 * loaded->second / floor->second);
  }
}

void loader(const LoaderOptions& options) {
  const TemporaryFolder folder;
  LoaderJobs jobs(make_folders(options, folder), options.python);
  std::string missing;
  std::map<std::string, double> per_second;  // Ours, on one core.
  if (needs_photos(options)) {
    tell_decoder(jobs, options.json);
  }
  if (!options.json) {
    print_loader_head(options.rounds);
  }
  for (const auto& part : loader_parts()) {
    if (!is_asked(options, part.name) || (part.name == "large" && !options.data.empty())) {
      continue;
    }
    auto contenders = contenders_of(part);
    jobs.take_turns(contenders, options.rounds);
    for (const auto& line : part.lines) {
      const LoaderResult result = result_of(line, contenders);
      options.json ? print_loader_json(result, contenders) : print_loader_row(result);
      per_second[line.ours] =
          static_cast<double>(result.our_core->samples) / *result.our_core->median_seconds();
      if (result.peer_core != nullptr && !result.peer_core->missing.empty()) {
        missing = result.peer_core->missing;
      }
    }
    if (part.name == "photos") {
      tell_consumer(jobs, "paced", options.json);
      tell_consumer(jobs, "paced-exact", options.json);
    }
  }
  jobs.finish();
  if (!options.json) {
    tell_floor(per_second);
    std::printf("\n%s", kNotes);
    if (!missing.empty()) {
      std::printf("PyTorch took no part in some rows: %s\n", missing.c_str());
    }
  }
}

// CLI::Range accepts nan.
std::string fault_of_number(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : "";
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
  command
      ->add_option("--rows", options->rows,
                   "memory, photos, large, decode, files; all unless given")
      ->delimiter(',')
      ->check(CLI::IsMember({"memory", "photos", "large", "decode", "files"}))
      ->option_text("memory,photos,large,decode,files");
  command->add_option("--rounds", options->rounds, "turns of each contender; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--photos", options->photos,
                   "how many photographs are made up; 16 cores want 8000")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--files", options->files, "how many small files are made")
      ->check(CLI::Range(256, 10000000))
      ->capture_default_str();
  command
      ->add_option("--shortest-turn", options->shortest_turn,
                   "seconds; what takes less is repeated for that long. 0: nothing is")
      ->check(CLI::Range(0.0, 60.0) & CLI::Validator(fault_of_number, "", "number"))
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
