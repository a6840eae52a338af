// Figures of a run for programs to read: metrics.jsonl, a line for each entry, and summary.csv, a
// row for each epoch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/log/log_file.h"

namespace lockstep::log {

// A list is one in JSON, and a field with spaces between in CSV.
using MetricValue = std::variant<std::int64_t, double, std::string, std::vector<std::string>>;
// In the order in which they are written.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

// A JSON object on one line. Numbers are the shortest that read back as the same; JSON has none for
// NaN and infinity, which are the strings "NaN", "Infinity" and "-Infinity" (as in protobuf's
// JSON).
std::string json_line(const Metrics& metrics);

class MetricsFile {
 public:
  // Goes on behind the last whole line of a file that is there. Throws IoError if it cannot be
  // opened, or another writer has it open; a disk that fails later costs lines, with one warning.
  explicit MetricsFile(std::string path, OnWarning on_warning = warn_on_stderr);

  void write(const Metrics& metrics) { file_.append(json_line(metrics)); }

  // For a run that goes on from a checkpoint: removes the first line whose number `name` ("step")
  // is greater than `last`, and all that follow it. So a step is in the file once, if its line is
  // written before its checkpoint.
  void drop_after(const std::string& name, std::int64_t last);
  void flush() { file_.flush(); }

 private:
  LogFile file_;
};

// Throws UsageError if there is a summary at `path` whose header has other names than these. Quotes
// and a line end that a spreadsheet's program wrote make no difference. Changes nothing.
void require_columns(const std::string& path, const std::vector<std::string>& names);

class SummaryCsv {
 public:
  // As MetricsFile. The header of a file that is there stays.
  explicit SummaryCsv(std::string path, OnWarning on_warning = warn_on_stderr);

  // The first row's names are the header. Throws UsageError if a later row has other names.
  void write(const Metrics& row);

  // Drops the rows whose first column is greater than `last`, as MetricsFile::drop_after() does.
  void drop_after(std::int64_t last);
  void flush() { file_.flush(); }

 private:
  LogFile file_;
  std::vector<std::string> columns_;
};

}  // namespace lockstep::log
