// A copy of what a run prints, for the folder of the run, which is known only after the first
// lines.
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::train {

// A disk that fails costs the rest of the file, with one warning. Not for several threads.
class OutputLog {
 public:
  using OnWarning = std::function<void(const std::string& warning)>;

  // Kept in memory until open() or close() was called.
  void write(const std::string& text);

  // Makes the file and the folders above it, or goes on behind what it has, and writes what came
  // before.
  void open(const std::string& path, OnWarning on_warning);
  // Nothing is kept from now on.
  void close();

 private:
  void fail(int error);

  bool is_decided_ = false;  // open() or close() was called.
  std::string early_;
  std::string path_;
  UniqueFd file_;
  OnWarning on_warning_;
};

}  // namespace lockstep::train
