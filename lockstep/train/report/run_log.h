// The files of a run that tell how it went: metrics.jsonl, summary.csv and TensorBoard's events.
#pragma once

#include <string>
#include <vector>

#include "lockstep/log/metrics.h"
#include "lockstep/log/summary_writer.h"
#include "lockstep/train/report/observer.h"

namespace lockstep::train {

// On rank 0. A disk that fails costs lines, with a warning for each file, and never the run.
class RunLog : public Observer {
 public:
  // Throws UsageError if the folder has a summary.csv with other columns: found after an epoch, it
  // would cost that epoch. Changes nothing.
  static void require_own_summary(const std::string& folder);

  // `start`: where the run begins or goes on; what a killed process wrote behind it is removed, so
  // that each step is there once. Throws IoError if a file cannot be opened.
  RunLog(const std::string& folder, const Position& start, const log::OnWarning& on_warning);

  void on_interval(const Interval& interval) override;
  void on_epoch(const Epoch& epoch) override;
  void on_test(const Position& position, const Scores& test) override;

  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }

 private:
  log::MetricsFile metrics_;
  log::SummaryCsv summary_;
  log::SummaryWriter events_;
  std::vector<std::string> files_;
};

}  // namespace lockstep::train
