// A folder with two checkpoints, and how they are told from each other.
#pragma once

#include <fstream>
#include <string>

#include "lockstep/checkpoint/folder.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/values.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::checkpoint {

// Checkpoints are told from each other by their first weight.
inline float version_in(const Document& document) {
  return floats(document.root.find("model")->find("weight")).at(0);
}
inline float version_of(const std::string& path) { return version_in(read_checkpoint(path)); }

struct TwoSaved {
  test::TemporaryFolder folder;
  FileSystem files;
  TwoSaved() {
    Folder saved(folder.path, files);
    saved.save(small_checkpoint(1));
    saved.save(small_checkpoint(2));
  }
};

inline void damage(const std::string& file) {
  std::fstream damaged(file, std::ios::in | std::ios::out);
  damaged.seekp(700);
  damaged.put('!');
}

}  // namespace lockstep::checkpoint
