// Saves checkpoints while training goes on: it waits for a copy in memory, not for the disk.
#pragma once

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/checkpoint/folder.h"
#include "lockstep/data/workers/recycled_memory.h"
#include "lockstep/train/checkpoint/checkpoint.h"

namespace lockstep {

struct SaveOptions {
  bool best = false;  // Becomes best.pt, too.
  // For the write before, which must be done before this one starts.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  int retries = 0;  // How often a write that failed begins again, with a new file.
};

// On one rank, as a rule rank 0. Not for several threads at a time.
class CheckpointWriter {
 public:
  // Makes the folder, and those above that are missing, for their owner alone. Throws IoError if it
  // cannot be used, or another writer has it.
  explicit CheckpointWriter(const std::string& folder);
  // `files` outlives this.
  CheckpointWriter(const std::string& folder, checkpoint::FileSystem& files);
  // Waits for the write. Its error is a warning of torch then, so call wait() before.
  ~CheckpointWriter();

  // Copies the tensors and returns; they may change at once. The file is last.pt once it is whole
  // and on the disk. Throws the error of the write before, if that failed; this checkpoint is being
  // written nevertheless. Throws IoError, and saves nothing, if that write is not done in time, and
  // UsageError if there is something that cannot be saved.
  void save(const Checkpoint& checkpoint, const SaveOptions& options = {});

  // Until what was saved is on the disk. Throws IoError if it is not, or not yet.
  void wait(const Deadline& deadline = Deadline::in(std::chrono::minutes(10)));

 private:
  // Until the write is done; its error is in error_ then.
  void finish(const Deadline& deadline);
  void throw_error();

  std::unique_ptr<checkpoint::FileSystem> own_files_;
  std::string path_;
  std::unique_ptr<checkpoint::Folder> folder_;
  data::RecycledMemory memory_;
  std::future<void> write_;
  std::exception_ptr error_;  // A write's error, until it is thrown.
};

}  // namespace lockstep
