#include "lockstep/train/report/run_log.h"

#include "lockstep/log/resume_events.h"

namespace lockstep::train {
namespace {

std::string metrics_path(const std::string& folder) { return folder + "/metrics.jsonl"; }
std::string summary_path(const std::string& folder) { return folder + "/summary.csv"; }

// Tags of the last step whose events are written again: the test part is always scored at the end,
// and a run that goes on inside an epoch validates that epoch.
std::vector<std::string> tags_made_again(const Position& start) {
  std::vector<std::string> tags{"Loss/test", "acc1/test", "acc5/test"};
  if (start.step_in_epoch > 0) {
    tags.insert(tags.end(), {"Loss/val", "acc1/val", "acc5/val"});
  }
  return tags;
}

// Also removes the steps that are made again from the folder.
log::SummaryWriterOptions event_options(const std::string& folder, const Position& start,
                                        const log::OnWarning& on_warning) {
  log::drop_events_after(folder, {start.step, tags_made_again(start)}, on_warning);
  log::SummaryWriterOptions options;
  options.on_warning = on_warning;
  return options;
}

log::Metrics summary_row(const Epoch& epoch) {
  return {{"epoch", epoch.position.epoch},      {"train_loss", epoch.train.loss},
          {"eval_loss", epoch.validation.loss}, {"eval_top1", epoch.validation.top1},
          {"eval_top5", epoch.validation.top5}, {"lr", epoch.lr}};
}

// What the driver tells of rank 0's GPU; empty without one.
log::Metrics gpu_metrics(const Interval& interval) {
  log::Metrics metrics;
  const auto gpu = interval.gpu.value_or(GpuUse{});
  if (gpu.utilization) {
    metrics.emplace_back("gpu_utilization", static_cast<double>(*gpu.utilization));
  }
  if (gpu.memory_bytes) {
    metrics.emplace_back("gpu_memory_bytes", static_cast<double>(*gpu.memory_bytes));
  }
  if (gpu.watts) {
    metrics.emplace_back("gpu_watts", *gpu.watts);
  }
  return metrics;
}

}  // namespace

void RunLog::require_own_summary(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [name, value] : summary_row({})) {
    names.push_back(name);
  }
  log::require_columns(summary_path(folder), names);
}

RunLog::RunLog(const std::string& folder, const Position& start, const log::OnWarning& on_warning)
    : metrics_(metrics_path(folder), on_warning),
      summary_(summary_path(folder), on_warning),
      events_(folder, event_options(folder, start, on_warning)),
      files_{summary_path(folder), metrics_path(folder), events_.path()} {
  metrics_.drop_after("step", start.step);
  metrics_.drop_after("epochs", start.epoch);
  metrics_.drop_after("test_samples", 0);
  summary_.drop_after(start.epoch - 1);
}

void RunLog::on_interval(const Interval& interval) {
  const auto& position = interval.position;
  log::Metrics line{{"step", position.step},
                    {"epoch", position.epoch},
                    {"loss", interval.train.loss},
                    {"top1", interval.train.top1},
                    {"top5", interval.train.top5},
                    {"lr", interval.lr},
                    {"samples_per_second", interval.samples_per_second},
                    {"data_wait", interval.data_wait},
                    {"communication_wait", interval.communication_wait}};
  const auto gpu = gpu_metrics(interval);
  line.insert(line.end(), gpu.begin(), gpu.end());
  metrics_.write(line);
  events_.add_scalar("Loss/train", interval.train.loss, position.step);
  events_.add_scalar("acc1/train", interval.train.top1, position.step);
  events_.add_scalar("acc5/train", interval.train.top5, position.step);
  events_.add_scalar("lr", interval.lr, position.step);
  for (const auto& [name, value] : gpu) {
    events_.add_scalar("GPU/" + name.substr(4), std::get<double>(value), position.step);
  }
}

void RunLog::on_epoch(const Epoch& epoch) {
  const auto& position = epoch.position;
  metrics_.write({{"step", position.step},
                  {"epoch", position.epoch},
                  {"epochs", position.epoch + 1},  // That are done.
                  {"train_loss", epoch.train.loss},
                  {"train_top1", epoch.train.top1},
                  {"eval_loss", epoch.validation.loss},
                  {"eval_top1", epoch.validation.top1},
                  {"eval_top5", epoch.validation.top5},
                  {"lr", epoch.lr}});
  summary_.write(summary_row(epoch));
  events_.add_scalar("Loss/val", epoch.validation.loss, position.step);
  events_.add_scalar("acc1/val", epoch.validation.top1, position.step);
  events_.add_scalar("acc5/val", epoch.validation.top5, position.step);
}

void RunLog::on_test(const Position& position, const Scores& test) {
  // Without `epochs`: of a run that goes on behind the last epoch this line is made again.
  metrics_.write({{"step", position.step},
                  {"test_loss", test.loss},
                  {"test_top1", test.top1},
                  {"test_top5", test.top5},
                  {"test_samples", test.samples}});
  events_.add_scalar("Loss/test", test.loss, position.step);
  events_.add_scalar("acc1/test", test.top1, position.step);
  events_.add_scalar("acc5/test", test.top5, position.step);
}

}  // namespace lockstep::train
