// Saves the checkpoints of a run, and outlives a disk that fails.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"

namespace lockstep::train {

using OnWarning = std::function<void(const std::string& warning)>;

struct KeeperOptions {
  OnWarning on_warning;
  bool strict = false;                      // What goes wrong is an IoError: training ends.
  checkpoint::FileSystem* files = nullptr;  // Outlives the keeper; null: the system's.
};

// On rank 0. What goes wrong is tried once more. If that fails, it is a warning: training goes on,
// and the last good checkpoint stays.
class CheckpointKeeper {
 public:
  // The folder is made by the first save.
  CheckpointKeeper(std::string folder, KeeperOptions options);

  // Copies the tensors; the disk is waited for if `strict`, and only then. Throws IoError then if
  // the checkpoint is not on it.
  void save(const Checkpoint& checkpoint, const SaveOptions& options);
  // Waits for the disk. True if the last checkpoint is on it.
  bool finish();

 private:
  void open();
  void fail(const IoError& error);

  std::string folder_;
  KeeperOptions options_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_saved_ = true;
};

}  // namespace lockstep::train
