// Saves the checkpoints of a run, and outlives a disk that fails.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/train/checkpoint/checkpoint_writer.h"

namespace lockstep::train {

using OnWarning = std::function<void(const std::string& warning)>;

// On rank 0. What goes wrong is a warning: training goes on, and the last good checkpoint stays.
class CheckpointKeeper {
 public:
  // The folder is made by the first save.
  CheckpointKeeper(std::string folder, OnWarning on_warning);

  // Copies the tensors; the disk is not waited for.
  void save(const Checkpoint& checkpoint, const SaveOptions& options);
  // Waits for the disk. True if the last checkpoint is on it.
  bool finish();

 private:
  std::string folder_;
  OnWarning on_warning_;
  std::unique_ptr<CheckpointWriter> writer_;
  bool is_saved_ = true;
};

}  // namespace lockstep::train
