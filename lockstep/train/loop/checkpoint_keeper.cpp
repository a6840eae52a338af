#include "lockstep/train/loop/checkpoint_keeper.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {

CheckpointKeeper::CheckpointKeeper(std::string folder, OnWarning on_warning)
    : folder_(std::move(folder)), on_warning_(std::move(on_warning)) {}

void CheckpointKeeper::save(const Checkpoint& checkpoint, const SaveOptions& options) {
  try {
    if (!writer_) {
      writer_ = std::make_unique<CheckpointWriter>(folder_);
    }
    is_saved_ = true;
    writer_->save(checkpoint, options);
  } catch (const IoError& error) {
    is_saved_ = false;
    on_warning_(std::string("a checkpoint was not saved; training goes on: ") + error.what());
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
