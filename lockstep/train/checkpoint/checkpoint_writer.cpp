#include "lockstep/train/checkpoint/checkpoint_writer.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep {
namespace {

// With the folders above that are missing; nothing where it is there. `wanted` is for errors.
void make_folder(const std::filesystem::path& path, const std::string& wanted,
                 checkpoint::FileSystem& files) {
  int made = ::mkdir(path.c_str(), 0700);
  if (made != 0 && errno == ENOENT && path.has_parent_path()) {
    make_folder(path.parent_path(), wanted, files);
    made = ::mkdir(path.c_str(), 0700);
  }
  if (made != 0) {
    if (errno == EEXIST) {
      return;
    }
    throw_errno("making the folder of checkpoints '" + wanted + "': '" + path.string() + "'");
  }
  // Its name is in the folder above, without which a loss of power takes all that is in it.
  const UniqueFd above(::open((path / "..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above || files.fsync(above.get()) != 0) {
    throw_errno("syncing the folder above the new folder '" + path.string() +
                "' of the checkpoints in '" + wanted + "'");
  }
}

std::unique_ptr<checkpoint::Folder> open_folder(const std::string& path,
                                                checkpoint::FileSystem& files) {
  make_folder(path, path, files);
  return std::make_unique<checkpoint::Folder>(path, files);
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& folder)
    : own_files_(std::make_unique<checkpoint::FileSystem>()),
      path_(folder),
      folder_(open_folder(folder, *own_files_)) {}

CheckpointWriter::CheckpointWriter(const std::string& folder, checkpoint::FileSystem& files)
    : path_(folder), folder_(open_folder(folder, files)) {}

CheckpointWriter::~CheckpointWriter() {
  if (write_.valid()) {
    write_.wait();
  }
  try {
    finish(Deadline::in(std::chrono::milliseconds(0)));
    throw_error();
  } catch (const std::exception& error) {
    try {
      TORCH_WARN("the last checkpoint in '", path_, "' was not written: ", error.what());
    } catch (...) {  // A handler that throws, from where nothing may be thrown.
    }
  }
}

void CheckpointWriter::save(const Checkpoint& checkpoint, const SaveOptions& options) {
  finish(Deadline::in(options.timeout));
  Snapshot snapshot;
  auto root = to_value(checkpoint, [&](const at::Tensor& tensor) { return snapshot.take(tensor); });
  snapshot.copy_to(memory_.take(snapshot.bytes()));
  write_ = std::async(std::launch::async, [folder = folder_.get(), root = std::move(root),
                                           best = options.best, retries = options.retries] {
    for (int left = retries;; --left) {
      try {
        folder->save(root, {.best = best});
        return;
      } catch (const IoError&) {
        if (left <= 0) {
          throw;
        }
      }
    }
  });
  throw_error();
}

void CheckpointWriter::wait(const Deadline& deadline) {
  finish(deadline);
  throw_error();
}

void CheckpointWriter::finish(const Deadline& deadline) {
  if (!write_.valid()) {
    return;
  }
  if (write_.wait_until(deadline.at()) != std::future_status::ready) {
    throw IoError("the checkpoint in '" + path_ + "' is not written after " +
                  to_text(deadline.total()) + "; look at the disk, or raise the timeout");
  }
  try {
    write_.get();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void CheckpointWriter::throw_error() {
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

}  // namespace lockstep
