// A file that grows by whole records while training runs.
//
// A run is worth more than its log: what the disk refuses later on is lost, with one warning, and
// nothing throws. Each record is written when it comes, so a process that is killed loses none.
// The user alone may read it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "lockstep/base/fd.h"

namespace lockstep::log {

// Told once for each file that something of it is lost. It may use the file, for no lock is held.
// What it throws is dropped: a log does not end a run.
using OnWarning = std::function<void(const std::string& warning)>;

// One line on stderr.
void warn_on_stderr(const std::string& warning);

enum class OpenLog {
  kNew,  // The file must not be there yet.
  // Goes on behind the last whole line of a file that may be there. Refused while another LogFile,
  // of any process, has it open.
  kLines,
};

class LogFile {
 public:
  // Throws IoError that names the path if the file cannot be made or opened. Never through a
  // symbolic link.
  LogFile(std::string path, OpenLog how, OnWarning on_warning);

  // All of the record or nothing of it. Threads may call it at the same time. Throws UsageError
  // after close().
  void append(std::string_view record);

  // Returns when what was appended is on the disk. Does nothing after close().
  void flush();

  // The whole records. Empty, with a warning, if the file cannot be read.
  [[nodiscard]] std::string content();

  // Keeps the first `size` bytes, where a record ends. A disk that refuses keeps more, with a
  // warning. Throws UsageError after close().
  void cut(std::int64_t size);

  // Flushes, and writes nothing more. Threads may still call the others.
  void close();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Bytes of the whole records. Not for several threads.
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  // With the mutex held: what to warn of, empty if nothing.
  [[nodiscard]] std::string why_gone();
  [[nodiscard]] std::string write(std::string_view record);
  void require_open() const;
  [[nodiscard]] std::string sync();
  void warn(std::unique_lock<std::mutex> lock, const std::string& what);

  std::string path_;
  OnWarning on_warning_;
  std::mutex mutex_;
  UniqueFd file_;          // None if it was closed or removed.
  std::int64_t size_ = 0;  // Bytes of all whole records.
  bool closed_ = false;
  bool warned_ = false;
};

}  // namespace lockstep::log
