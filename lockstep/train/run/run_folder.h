// Where a run keeps its files: runs/<data>-<model>, and -2, -3, ... for the runs after it.
//
// The newest run of a name decides: if it is not finished it is resumed, else a new folder follows.
// What a start left that was refused is no run: a later one takes its folder.
// One process at a time has a folder. A disk that refuses to be written is no error: the trainer
// asks can_write(), says why_not(), and goes on without files.
#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::train {

// The folder of the newest one that set_job() was called for with this text; empty if there is
// none.
std::string newest_run_of_job(const std::string& root, const std::string& name,
                              const std::string& job);
// What set_job() wrote into a run's folder; empty if nothing.
std::string job_of(const std::string& folder);

struct RunFolderOptions {
  std::string root = "runs";  // Made if it is not there. It may be a link.
  std::string name;           // From run_name().
  bool resume = true;         // Else a new folder follows, whatever the newest one holds.
};

class RunFolder {
 public:
  // Throws UsageError if another process has the run, and IoError if its folder is a link, no
  // folder, or one that everyone may write to.
  static RunFolder open(const RunFolderOptions& options);

  // Exactly this folder, which must be there: for --resume PATH and --eval-only. Throws as open(),
  // and IoError if it is missing.
  static RunFolder open_existing(const std::string& path);

  ~RunFolder();
  RunFolder(RunFolder&&) = default;
  RunFolder& operator=(RunFolder&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  // Whether it was there before, and mark_finished() was not called for it.
  [[nodiscard]] bool is_resumed() const { return is_resumed_; }
  [[nodiscard]] bool is_finished() const { return is_finished_; }

  // Looks at the disk. False if the folder could not be made, may not be written, or is gone since.
  [[nodiscard]] bool can_write() const { return why_not().empty(); }
  // A sentence that names the folder and the reason; empty if it can be written.
  [[nodiscard]] std::string why_not() const;

  // Where it is if it was renamed or moved since it was opened; empty if it has its name, or none.
  [[nodiscard]] std::string moved_to() const;

  // Makes a folder in it that the user alone may read, or finds one. Throws IoError.
  [[nodiscard]] std::string make_subfolder(const std::string& name) const;

  // The next open() of this name makes a new folder. Returns when the disk has it. Throws IoError.
  void mark_finished();
  // Takes that back, if it was so. Returns when the disk has it. Throws IoError.
  void mark_unfinished();

  // Remembers which job has the run. Leaves the file alone if it is the same. Throws IoError.
  void set_job(const std::string& job) const;

 private:
  RunFolder() = default;
  [[nodiscard]] bool try_lock() const;  // False: another process has it.
  void lock_or_throw() const;

  std::string path_;
  UniqueFd folder_;  // With the lock; none if it could not be made.
  std::string why_not_made_;
  bool is_resumed_ = false;
  bool is_finished_ = false;
};

}  // namespace lockstep::train
