// One stream of one worker, read through a pipe: kept for the report, copied to a file
// and to the console.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/launch/node/console.h"

namespace lockstep::launch {

struct CaptureTarget {
  std::string file;            // Empty: none.
  Console* console = nullptr;  // Must outlive the capture; null: none.
  std::string prefix;          // Put before each line on the console; lines then stay whole.
  Console* complaints =
      nullptr;  // Where it is said that the file cannot be written; null: nowhere.
  // For a log whose path is known only later: makes its folder and returns the path. Empty: not
  // known yet. Nothing: there will be no log, and the function has said why.
  std::function<std::optional<std::string>()> find_file = {};
};

class Capture {
 public:
  // Throws IoError if the file cannot be made.
  Capture(UniqueFd pipe, CaptureTarget target);

  // Reads what is there. Returns false at the end, when all writers have closed the pipe.
  bool read_some();
  // Passes on a last line without a line end. What was silent has an empty file.
  void finish();

  void close() { pipe_.reset(); }

  // -1 once closed.
  [[nodiscard]] int fd() const { return pipe_.get(); }
  // At least the last 64 KiB, or all if less was written.
  [[nodiscard]] const std::string& tail() const { return tail_; }
  // Its log file; empty if there is none, or none yet.
  [[nodiscard]] const std::string& file() const { return target_.file; }

 private:
  void take(std::string_view bytes);
  void open_found_file();
  void keep(std::string_view bytes);
  void complain(const std::string& why) const;
  void show(std::string_view bytes);

  UniqueFd pipe_;
  CaptureTarget target_;
  UniqueFd file_;
  std::string tail_;
  std::string line_;  // The beginning of a line, when there is a prefix.
};

// An empty 0600 file for a log, opened for appending. Throws IoError naming the path.
UniqueFd create_log_file(const std::string& path);

}  // namespace lockstep::launch
