#include "lockstep/train/loop/checkpoint_keeper.h"

#include <utility>

namespace lockstep::train {
namespace {

constexpr int kRetries = 1;

std::unique_ptr<CheckpointWriter> make_writer(const std::string& folder,
                                              checkpoint::FileSystem* files) {
  return files == nullptr ? std::make_unique<CheckpointWriter>(folder)
                          : std::make_unique<CheckpointWriter>(folder, *files);
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(std::string folder, KeeperOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

void CheckpointKeeper::open() {
  for (int left = kRetries; !writer_; --left) {
    try {
      writer_ = make_writer(folder_, options_.files);
    } catch (const IoError&) {
      if (left <= 0) {
        throw;
      }
    }
  }
}

void CheckpointKeeper::fail(const IoError& error) {
  if (options_.strict) {
    throw IoError(std::string("--strict: a checkpoint was not saved, at the second try, too: ") +
                  error.what() + "; HINT: mend the disk, and the same command goes on");
  }
  options_.on_warning(std::string("a checkpoint was not saved; training goes on: ") + error.what());
}

void CheckpointKeeper::save(const Checkpoint& checkpoint, const SaveOptions& options) {
  is_saved_ = false;
  try {
    open();
    writer_->wait(Deadline::in(options.timeout));
  } catch (const IoError& error) {
    fail(error);  // The one before, if there is a writer: this one may be saved nevertheless.
  }
  try {
    if (writer_) {
      writer_->save(
          checkpoint,
          {.best = options.best, .timeout = std::chrono::milliseconds(0), .retries = kRetries});
      if (options_.strict) {
        writer_->wait(Deadline::in(options.timeout));
      }
      is_saved_ = true;
    }
  } catch (const IoError& error) {
    fail(error);
  }
}

bool CheckpointKeeper::finish() {
  try {
    if (writer_) {
      writer_->wait();
    }
  } catch (const IoError& error) {
    is_saved_ = false;
    options_.on_warning(std::string("the last checkpoint was not saved: ") + error.what());
  }
  return is_saved_;
}

}  // namespace lockstep::train
