// `lockstep bench checkpoint`: how long training pauses for one, and the disk takes, beside
// torch.save.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/rank_group.h"
#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

struct CheckpointOptions {
  std::string folder;
  int megabytes = 200;
  int rounds = 5;
  std::string python;
  bool json = false;
};

constexpr const char* kCheckpointNotes =
    "Medians of the rounds. 'pause' is how long training waits, 'done' how long it takes until "
    "the\n"
    "file is there (for torch.save without fsync: in the kernel's memory). 'pause/memcpy' "
    "compares\n"
    "with a copy of the same bytes into memory that was used before.\n";

struct Contender {
  const char* title;
  const char* name;  // In JSON.
  bool ours;
  const char* order;
  std::vector<double> pause;
  std::vector<double> seconds;
  double bytes = 0;
};

// Gone with the object, and what is in it.
class BenchFolder {
 public:
  explicit BenchFolder(const std::string& parent) : path_(parent + "/lockstep-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_errno("a folder for checkpoints, '" + path_ + "'");
    }
  }
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void take_turn(RankGroup& job, Contender& contender) {
  job.tell(contender.order);
  const auto answer = nlohmann::json::parse(job.answer());
  contender.pause.push_back(answer.at("pause"));
  contender.seconds.push_back(answer.at("seconds"));
  contender.bytes = answer.at("bytes");
}

void print_line(const Contender& contender, double memcpy_seconds) {
  const double pause = median(contender.pause);
  const double seconds = median(contender.seconds);
  std::printf("%-28s %10s %10s %10s %12s\n", contender.title,
              number_text(pause * 1e3, " ms").c_str(), number_text(seconds * 1e3, " ms").c_str(),
              number_text(contender.bytes / seconds / 1e6).c_str(),
              number_text(pause / memcpy_seconds, "x").c_str());
}

void print_json_line(const Contender& contender, double memcpy_seconds) {
  const nlohmann::json row = {{"bench", "checkpoint"},
                              {"row", contender.name},
                              {"cores", usable_cores()},
                              {"arch", architecture()},
                              {"bytes", contender.bytes},
                              {"pause_s", median(contender.pause)},
                              {"median_s", median(contender.seconds)},
                              {"rounds_s", contender.seconds},
                              {"pause_over_memcpy", median(contender.pause) / memcpy_seconds}};
  std::printf("%s\n", row.dump().c_str());
}

void checkpoint(const CheckpointOptions& options) {
  const BenchFolder folder(options.folder);
  const std::string megabytes = std::to_string(options.megabytes);
  RankGroup ours(1, {program_folder() / "benchmarks/checkpoint_job", "{orders}",
                     folder.path() + "/ours", megabytes});
  std::unique_ptr<RankGroup> peer;
  std::vector<Contender> contenders = {{"memcpy", "memcpy", true, "memcpy"},
                                       {"lockstep", "lockstep", true, "save"}};
  if (!options.python.empty()) {
    peer = std::make_unique<RankGroup>(
        1, std::vector<std::string>{options.python, peer_program("checkpoint.py"), "{orders}",
                                    folder.path() + "/peer", megabytes});
    contenders.push_back({"torch.save", "torch_save", false, "save"});
    contenders.push_back({"torch.save, fsync, rename", "torch_save_fsync", false, "fsync"});
  }
  for (int round = 0; round <= options.rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      auto& contender = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      take_turn(contender.ours ? ours : *peer, contender);
      if (round == 0) {  // Memory and files are new.
        contender.pause.clear();
        contender.seconds.clear();
      }
    }
  }
  ours.finish();
  if (peer) {
    peer->finish();
  }
  if (!options.json) {
    std::printf(
        "checkpoints of %d MB in '%s', medians of %d interleaved rounds, %d cores\n\n"
        "%-28s %10s %10s %10s %12s\n",
        options.megabytes, options.folder.c_str(), options.rounds, usable_cores(), "", "pause",
        "done", "MB/s", "pause/memcpy");
  }
  const double memcpy_seconds = median(contenders.front().seconds);
  for (const auto& contender : contenders) {
    options.json ? print_json_line(contender, memcpy_seconds)
                 : print_line(contender, memcpy_seconds);
  }
  if (!options.json) {
    std::printf("\n%s", kCheckpointNotes);
  }
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  const auto options = std::make_shared<CheckpointOptions>();
  options->python = LOCKSTEP_BENCH_PYTHON;
  options->folder = std::filesystem::temp_directory_path();
  auto* command = app.add_subcommand("checkpoint", "saving a checkpoint, beside torch.save");
  command->add_option("--folder", options->folder, "a folder on the disk to be measured")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--megabytes", options->megabytes, "size of the checkpoint")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "turns of each contender; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--python", options->python, "a Python that has torch; '' leaves it out")
      ->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object per row, times in seconds");
  command->footer(kCheckpointNotes);
  command->callback([options] { checkpoint(*options); });
}

}  // namespace lockstep::bench
