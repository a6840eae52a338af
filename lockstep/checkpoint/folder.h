// The checkpoints of a run: last.pt, prev.pt, which was last.pt before, and best.pt.
//
// At any moment, also after a kill or a loss of power, last.pt is either the old or the new file,
// and whole; prev.pt and best.pt, too. One Folder at a time has a folder.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/checkpoint/file_system.h"
#include "lockstep/checkpoint/read.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/checkpoint/zip/writer.h"

namespace lockstep::checkpoint {

// Writes a file of this name into the folder: it is there whole, or not changed at all. The old
// file is kept as `previous` once the new one is on the disk. The new file gets the name `also`,
// too. Empty names are skipped. Blocks until the disk has it. Throws IoError that names the file
// and the operation and says whether the file is the old one or the new one, and leaves no
// temporary file.
struct Replacement {
  std::string name;
  std::string previous = {};
  std::string also = {};
};
void replace_file(FileSystem& files, const std::string& folder, const Replacement& replacement,
                  const std::function<void(const Sink&)>& write);

struct Loaded {
  Document document;
  std::string file;
  std::string reason;  // Why it is not last.pt; empty if it is.
};
// last.pt of the folder, or prev.pt if that is missing or damaged. Throws IoError with both reasons
// if neither can be used, and at once if last.pt cannot be opened or read, or is of a format that
// is not read here: then it may be sound, and an older one would lose work unseen. Refuses, as
// Folder does, a link and a folder that everyone may write to.
Loaded load_newest(const std::string& path);
// load_newest() of a folder, read_checkpoint() of anything else.
Loaded load_file_or_newest(const std::string& path);

class Folder {
 public:
  // The folder must exist. `files` outlives this. Removes what a killed process left in the middle
  // of a save. Throws IoError if it is a link, everyone may write to it (without the sticky bit),
  // another Folder has it, in this process or another, or files in it cannot have two names.
  explicit Folder(const std::string& path, FileSystem& files);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  struct SaveOptions {
    bool best = false;  // Becomes best.pt, too.
  };
  void save(const Value& root, const SaveOptions& options);
  void save(const Value& root) { save(root, SaveOptions()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileSystem& files_;
  UniqueFd folder_;  // With the lock.
};

}  // namespace lockstep::checkpoint
