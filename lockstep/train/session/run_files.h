// The folder of a run and what is in it, on rank 0.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/config/config.h"
#include "lockstep/train/loop/checkpoint_keeper.h"
#include "lockstep/train/report/run_log.h"
#include "lockstep/train/run/run_folder.h"

namespace lockstep::train {

// What --eval-only looks at by --resume: best.pt, or else the newest, of the newest run; or what
// the path says. Empty if there is no run.
std::string checkpoint_to_evaluate(const TrainConfig& config, const std::string& data,
                                   const std::string& model);

// What a dry run says of a run's files.
struct PlannedFiles {
  std::string folder;
  std::string checkpoint;  // As RunFiles::checkpoint().
  std::string why_not;     // The folder cannot be written, in words; empty: it can.
};
// As RunFiles would choose for data and model in a first start, with its errors; writes nothing.
PlannedFiles plan_files(const TrainConfig& config, const std::string& data,
                        const std::string& model);

class RunFiles {
 public:
  struct Names {
    std::string data;
    std::string model;
  };
  // Chooses the folder by --resume and locks it; a job that was restarted goes on with the folder
  // and the last checkpoint of its attempt before, whatever --resume says. A disk that cannot be
  // written is a warning: the run goes on without files. Throws UsageError or IoError as RunFolder
  // does, and if what --resume or, for a new run, --init-weights asks for is not there or no
  // checkpoint; then no folder is made.
  RunFiles(const TrainConfig& config, const Names& names, bool restarted, OnWarning on_warning);

  // What to go on from, a file or a folder of checkpoints; empty: the run is new.
  [[nodiscard]] const std::string& checkpoint() const { return checkpoint_; }

  // The attempt before finished the run: nothing is left to train.
  [[nodiscard]] bool is_done() const { return is_done_; }

  // Before the first step; writes config.toml, too. Throws UsageError, before anything is written,
  // if the folder's summary.csv has other columns.
  void open_logs(const std::optional<Position>& resumed);
  [[nodiscard]] RunLog* log() { return log_.get(); }
  [[nodiscard]] CheckpointKeeper& keeper() { return *keeper_; }
  // Waits for the last checkpoint. False if it could not be saved.
  bool finish(bool is_complete);

  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  [[nodiscard]] std::vector<std::string> files() const;
  // For what this rank prints on stdout; empty if no launcher keeps logs of ranks.
  [[nodiscard]] const std::string& stdout_log() const { return stdout_log_; }

 private:
  void claim();
  void keep_rank_logs();

  const TrainConfig& config_;
  OnWarning on_warning_;
  std::string checkpoint_;  // Set while the folder is chosen.
  bool is_done_ = false;    // Likewise.
  RunFolder folder_;
  std::string stdout_log_;
  std::unique_ptr<CheckpointKeeper> keeper_;
  std::unique_ptr<RunLog> log_;
};

}  // namespace lockstep::train
