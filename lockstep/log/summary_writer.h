// Writes what TensorBoard shows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lockstep/log/log_file.h"

namespace lockstep::log {

struct Event;

struct SummaryWriterOptions {
  // A run that goes on from a checkpoint of this step: TensorBoard forgets what the files of the
  // folder have from it on.
  std::optional<std::int64_t> purge_step = {};
  std::string filename_suffix;
  OnWarning on_warning = warn_on_stderr;
};

// One event file in a folder, as torch.utils.tensorboard.SummaryWriter makes it. Of a job's ranks
// one alone writes, rank 0. Each call writes at once, some microseconds, and none throws because of
// the disk: what it refuses is lost, with one warning. Threads may share a writer.
class SummaryWriter {
 public:
  // Makes the folder and a new file in it. Throws IoError with the path if that is not possible.
  explicit SummaryWriter(const std::string& log_dir, const SummaryWriterOptions& options = {});
  ~SummaryWriter();

  // TensorBoard keeps scalars as floats.
  void add_scalar(const std::string& tag, double value, std::int64_t global_step);
  // Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t global_step);
  // Throw UsageError if there is no value.
  void add_histogram(const std::string& tag, std::span<const double> values,
                     std::int64_t global_step);
  void add_histogram(const std::string& tag, std::span<const float> values,
                     std::int64_t global_step);

  // Returns when all is on the disk.
  void flush();
  // Flushes. Later calls throw UsageError, but for flush() and close(), which do nothing;
  // other threads may be in one when it is called.
  void close();

  [[nodiscard]] const std::string& path() const { return file_->path(); }  // The event file.

 private:
  void add(Event event);

  std::unique_ptr<LogFile> file_;
};

}  // namespace lockstep::log
