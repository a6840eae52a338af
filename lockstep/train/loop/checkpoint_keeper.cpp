#include "lockstep/train/loop/checkpoint_keeper.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

CheckpointKeeper::CheckpointKeeper(std::string folder, OnWarning on_warning)
    : folder_(std::move(folder)), on_warning_(std::move(on_warning)) {}

void CheckpointKeeper::save(const Checkpoint& checkpoint, const SaveOptions& options) {
  is_saved_ = false;
  const auto warn = [&](const IoError& error) {
    on_warning_(std::string("a checkpoint was not saved; training goes on: ") + error.what());
  };
  try {
    if (!writer_) {
      writer_ = std::make_unique<CheckpointWriter>(folder_);
    }
    writer_->wait(Deadline::in(options.timeout));
  } catch (const IoError& error) {
    warn(error);  // Of the one before, if there is a writer: this one may be saved nevertheless.
  }
  try {
    if (writer_) {
      writer_->save(checkpoint, {.best = options.best, .timeout = std::chrono::milliseconds(0)});
      is_saved_ = true;
    }
  } catch (const IoError& error) {
    warn(error);
  }
}

bool CheckpointKeeper::finish() {
  try {
    if (writer_) {
      writer_->wait();
    }
  } catch (const IoError& error) {
    is_saved_ = false;
    on_warning_(std::string("the last checkpoint was not saved: ") + error.what());
  }
  return is_saved_;
}

}  // namespace lockstep::train
