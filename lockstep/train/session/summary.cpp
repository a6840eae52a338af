#include "lockstep/train/session/summary.h"

#include <array>
#include <cstdio>

#include "lockstep/base/process/stop_notice.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/text.h"
#include "lockstep/log/metrics.h"
#include "lockstep/train/run/closing_summary.h"
#include "lockstep/train/run/stop_request.h"

namespace lockstep::train {
namespace {

std::string headline(const SummaryFacts& facts) {
  const auto& outcome = facts.outcome;
  const auto& position = outcome.position;
  const std::string unsaved =
      outcome.is_saved ? "" : ", but the last checkpoint could not be saved";
  if (outcome.stopped_by != 0 && is_at_end(facts.config, position)) {
    return "stopped by " + signal_name(outcome.stopped_by) + " before the test part was scored" +
           unsaved;
  }
  if (outcome.stopped_by != 0) {
    return "stopped by " + signal_name(outcome.stopped_by) + " in epoch " +
           std::to_string(position.epoch + 1) + ", step " + std::to_string(position.step_in_epoch) +
           unsaved;
  }
  return std::string(outcome.early ? "stopped early after " : "finished ") +
         counted(position.epoch, "epoch") + unsaved;
}

double share(double part, const Outcome& outcome) {
  return outcome.times.total > 0 ? part / outcome.times.total : 0;
}

double rate(const Outcome& outcome) {
  return outcome.times.total > 0 ? static_cast<double>(outcome.samples) / outcome.times.total : 0;
}

bool has_restarts(const SummaryFacts& facts) {
  return facts.restarts > 0 && facts.seconds_of_job.has_value();
}

double wall_seconds(const SummaryFacts& facts) {
  return has_restarts(facts) ? *facts.seconds_of_job : facts.outcome.seconds;
}

std::string time_note(const SummaryFacts& facts) {
  if (has_restarts(facts)) {
    return "with restarts";
  }
  return facts.is_resumed || facts.restarts > 0 ? "(time of the last start)" : "";
}

log::Metrics test_metrics(const Scores& test) {
  return {{"test_loss", test.loss},
          {"test_top1", test.top1},
          {"test_top5", test.top5},
          {"test_samples", test.samples}};
}

std::string scores_line(const Scores& scores) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "loss %.4f, accuracy %.2f %%, top-5 %.2f %% of %lld samples\n", scores.loss,
                scores.top1, scores.top5, static_cast<long long>(scores.samples));
  return text.data();
}

std::string file_ending_with(const std::string& end, const SummaryFacts& facts) {
  for (const auto& file : facts.files) {
    if (file.ends_with(end)) {
      return file;
    }
  }
  return "";
}

// What goes on from where: only a checkpoint that is on the disk can be promised.
std::string after_a_stop(const SummaryFacts& facts) {
  const std::string last = "/checkpoints/last.pt";
  auto run = file_ending_with(last, facts);
  if (run.empty()) {
    return "nothing was saved: the same command starts anew";
  }
  run.resize(run.size() - last.size());
  return command_to_go_on(facts.config, run) +
         (facts.outcome.is_saved ? " goes on from here"
                                 : " goes on from the last checkpoint that was saved");
}

std::string next_command(const SummaryFacts& facts) {
  if (facts.outcome.stopped_by != 0) {
    return after_a_stop(facts);
  }
  const auto best = file_ending_with("best.pt", facts);
  return best.empty() ? "" : "lockstep inspect " + best;
}

}  // namespace

std::string summary_text(const SummaryFacts& facts) {
  const auto& outcome = facts.outcome;
  ClosingSummary summary;
  summary.headline = headline(facts);
  if (outcome.last.samples > 0) {
    summary.loss = outcome.last.loss;
    summary.top1 = outcome.last.top1;
    summary.top5 = outcome.last.top5;
  }
  // A run that went on from a copy may have its best checkpoint elsewhere: no file here has it.
  const bool has_best = facts.files.empty() || !file_ending_with("best.pt", facts).empty();
  if (outcome.position.best_epoch >= 0 && has_best) {
    summary.best_top1 = outcome.position.best_top1;
    summary.best_epoch = outcome.position.best_epoch + 1;
  }
  if (outcome.test) {
    summary.test_loss = outcome.test->loss;
    summary.test_top1 = outcome.test->top1;
    summary.test_top5 = outcome.test->top5;
  }
  summary.wall_seconds = wall_seconds(facts);
  summary.time_note = time_note(facts);
  if (outcome.samples > 0) {
    summary.samples_per_second = rate(outcome);
  }
  summary.ranks = facts.ranks;
  summary.unit = facts.unit;
  summary.restarts = facts.restarts;
  summary.restart_seconds = facts.restart_seconds;
  if (outcome.times.total > 0) {
    summary.communication = share(outcome.times.communication, outcome);
    summary.data_wait = share(outcome.times.data, outcome);
    summary.compute = 1 - *summary.communication - *summary.data_wait;
  }
  summary.gpu = outcome.gpu.mean();
  summary.data = facts.data;
  summary.files = facts.files;
  summary.warnings = facts.warnings;
  summary.next_command = next_command(facts);
  return closing_text(summary);
}

std::string command_to_go_on(const TrainConfig& config, const std::string& run) {
  // The others choose a checkpoint of their own, or begin a run of their own.
  const bool finds_it = config.resume == "auto" || config.resume == "last";
  return "the same command" + (finds_it ? "" : " with --resume " + run);
}

int exit_code_of(const Outcome& outcome) {
  if (outcome.stopped_by != 0) {
    return outcome.is_saved ? StopRequest::exit_code(outcome.stopped_by) : kStoppedUnsaved;
  }
  return outcome.is_saved ? 0 : 1;
}

std::string summary_json(const SummaryFacts& facts) {
  const auto& outcome = facts.outcome;
  log::Metrics metrics{{"state", outcome.stopped_by != 0 ? "stopped"
                                 : outcome.early         ? "stopped early"
                                                         : "finished"},
                       {"exit_code", static_cast<std::int64_t>(exit_code_of(outcome))},
                       {"epochs", outcome.position.epoch},
                       {"steps", outcome.position.step}};
  const auto add = [&](const log::Metrics& more) {
    metrics.insert(metrics.end(), more.begin(), more.end());
  };
  if (outcome.last.samples > 0) {  // Else nothing was validated: 0 % would be a lie.
    add({{"eval_loss", outcome.last.loss},
         {"eval_top1", outcome.last.top1},
         {"eval_top5", outcome.last.top5}});
  }
  if (outcome.position.best_epoch >= 0) {
    add({{"best_top1", outcome.position.best_top1},
         {"best_epoch", outcome.position.best_epoch + 1}});
  }
  if (outcome.test) {
    add(test_metrics(*outcome.test));
  }
  if (facts.bad_files) {
    add({{"bad_files", *facts.bad_files}});
  }
  if (!facts.bad_file_list.empty()) {
    add({{"bad_file_list", facts.bad_file_list}});
  }
  add({{"seconds", wall_seconds(facts)},
       {"samples_per_second", rate(outcome)},
       {"communication", share(outcome.times.communication, outcome)},
       {"data_wait", share(outcome.times.data, outcome)},
       {"ranks", static_cast<std::int64_t>(facts.ranks)},
       {"restarts", static_cast<std::int64_t>(facts.restarts)},
       {"restart_seconds", facts.restart_seconds},
       {"warnings", static_cast<std::int64_t>(facts.warnings.size())},
       {"files", facts.files}});
  const auto gpu = outcome.gpu.mean().value_or(GpuUse{});
  if (gpu.utilization) {
    add({{"gpu_utilization", static_cast<std::int64_t>(*gpu.utilization)}});
  }
  if (gpu.watts) {
    add({{"gpu_watts", *gpu.watts}});
  }
  return log::json_line(metrics);
}

std::string evaluation_text(const Scores& scores, bool json, const std::optional<Scores>& test) {
  if (json) {
    log::Metrics metrics{{"eval_loss", scores.loss},
                         {"eval_top1", scores.top1},
                         {"eval_top5", scores.top5},
                         {"samples", scores.samples}};
    if (test) {
      const auto more = test_metrics(*test);
      metrics.insert(metrics.end(), more.begin(), more.end());
    }
    return log::json_line(metrics);
  }
  return scores_line(scores) + (test ? "test: " + scores_line(*test) : "");
}

}  // namespace lockstep::train
