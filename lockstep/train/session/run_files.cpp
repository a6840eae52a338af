#include "lockstep/train/session/run_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/checkpoint/file_system.h"
#include "lockstep/checkpoint/folder.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/loop/trainer.h"
#include "lockstep/train/run/run_names.h"
#include "lockstep/train/session/launched_job.h"
#include "lockstep/train/session/output_folder.h"
#include "lockstep/train/session/rank_logs.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_checkpoint(const std::string& run) {
  return is_there(run + "/checkpoints/last.pt") || is_there(run + "/checkpoints/prev.pt");
}

struct Choice {
  std::string run;         // An existing folder to use; empty: by name.
  std::string checkpoint;  // To go on from; empty: what the folder has.
};

[[noreturn]] void refuse_resume(const std::string& resume) {
  auto nearest = nearest_name(resume, {"auto", "last", "best", "no"});
  if (!nearest) {
    nearest = nearest_path(resume);
  }
  throw UsageError(
      "--resume: there is no '" + resume +
      "', expected a checkpoint, the folder of a run, auto, last, best or no; HINT: " +
      (nearest ? "--resume " + *nearest : "leave --resume out to go on with the newest run"));
}

// --resume best, last or a path.
Choice choose(const TrainConfig& config, const std::string& name) {
  const auto& resume = config.resume;
  if (resume == "auto" || resume == "no") {
    return {};
  }
  if (resume == "last" || resume == "best") {
    const auto run = newest_run(config.output, name);
    const auto file = run + "/checkpoints/" + (resume == "best" ? "best.pt" : "");
    if (run.empty() || !has_checkpoint(run) || !is_there(file)) {
      throw UsageError("--resume " + resume + ": there is no such checkpoint of a run '" +
                       config.output + "/" + name + "'; HINT: leave --resume out to start one");
    }
    return {run, file};
  }
  if (!is_there(resume)) {
    refuse_resume(resume);
  }
  if (is_there(resume + "/checkpoints")) {
    return {resume, resume + "/checkpoints"};
  }
  const auto folder = fs::absolute(resume).parent_path();
  const bool is_of_run =
      folder.filename() == "checkpoints" && is_there(folder.parent_path() / "config.toml");
  return {is_of_run ? folder.parent_path().string() : "", resume};
}

RunFolder open_folder(const TrainConfig& config, const std::string& name, const Choice& choice) {
  if (!choice.run.empty()) {
    return RunFolder::open_existing(choice.run);
  }
  return RunFolder::open({config.output, name, config.resume == "auto"});
}

// Whether open_folder() would find a run to go on with: that needs no --init-weights any more.
bool goes_on(const TrainConfig& config, const std::string& name, const Choice& choice) {
  if (!choice.checkpoint.empty()) {
    return true;
  }
  const auto run = config.resume == "auto" ? newest_run(config.output, name) : "";
  return !run.empty() && has_checkpoint(run) && !is_there(run + "/finished");
}

// The run of this job's attempt before; empty if that had none yet.
std::string run_of_job(const TrainConfig& config, const std::string& name, const Choice& choice) {
  return !choice.run.empty() && job_of(choice.run) == this_job()
             ? choice.run
             : newest_run_of_job(config.output, name, this_job());
}

// A run that was there before may have checkpoints of another job.
bool has_checkpoint_of_job(const std::string& run) {
  try {
    return job_of(load_checkpoint(run + "/checkpoints", "cpu").checkpoint) == this_job();
  } catch (const IoError&) {
    return false;  // None, or none that can be read.
  }
}

}  // namespace

PlannedFiles plan_files(const TrainConfig& config, const std::string& data,
                        const std::string& model) {
  const auto name = run_name(data, model);
  const auto choice = choose(config, name);
  if (choice.run.empty()) {
    require_output_folder(config.output);
  }
  if (!config.init_weights.empty() && !goes_on(config, name, choice)) {
    require_initial_weights(config.init_weights);
  }
  auto run = choice.run;
  if (run.empty() && config.resume == "auto") {
    run = newest_run(config.output, name);
  }
  PlannedFiles plan{.folder = next_run(config.output, name), .checkpoint = choice.checkpoint};
  if (!run.empty()) {
    const auto existing = RunFolder::open_existing(run);
    if (!choice.run.empty() || !existing.is_finished()) {
      plan.folder = run;
      plan.why_not = existing.why_not();
      if (plan.checkpoint.empty() && has_checkpoint(run)) {
        plan.checkpoint = run + "/checkpoints";
      }
      return plan;
    }
  }
  plan.why_not = why_no_folder_in(config.output);
  return plan;
}

std::string checkpoint_to_evaluate(const TrainConfig& config, const std::string& data,
                                   const std::string& model) {
  const auto name = run_name(data, model);
  if (config.resume != "auto" && config.resume != "no") {
    return choose(config, name).checkpoint;
  }
  const auto run = newest_run(config.output, name);
  if (run.empty() || config.resume == "no") {
    return "";
  }
  return is_there(run + "/checkpoints/best.pt") ? run + "/checkpoints/best.pt"
                                                : run + "/checkpoints";
}

RunFiles::RunFiles(const TrainConfig& config, const Names& names, bool restarted,
                   OnWarning on_warning)
    : config_(config), on_warning_(std::move(on_warning)), folder_([&] {
        const auto name = run_name(names.data, names.model);
        const auto choice = choose(config, name);
        const auto own = restarted ? run_of_job(config, name, choice) : "";
        checkpoint_ = choice.checkpoint;
        if (own.empty()) {
          if (choice.run.empty()) {
            require_output_folder(config.output);
          }
          if (!config.init_weights.empty() && !goes_on(config, name, choice)) {
            require_initial_weights(config.init_weights);  // Before a folder is made.
            require_checkpoint(config.init_weights, "--init-weights");
          }
          if (choice.run.empty() && !choice.checkpoint.empty()) {
            require_checkpoint(choice.checkpoint, flag_of_resume(config));  // As above.
          }
          return open_folder(config, name, choice);
        }
        const bool has_saved = has_checkpoint_of_job(own);
        if (has_saved) {
          checkpoint_ = own + "/checkpoints";
        }
        auto folder = RunFolder::open_existing(own);
        // If this job has saved no checkpoint, the run was marked as finished before this job.
        is_done_ = has_saved && folder.is_finished();
        return folder;
      }()) {
  if (checkpoint_.empty() && folder_.is_resumed() && has_checkpoint(folder_.path())) {
    checkpoint_ = folder_.path() + "/checkpoints";
  }
  if (checkpoint_.empty() && folder_.is_resumed() && is_there(folder_.file("checkpoints"))) {
    on_warning_("the unfinished run '" + folder_.path() +
                "' has no checkpoint, neither last.pt nor prev.pt: it starts from the "
                "beginning, in the same folder");
  }
  claim();
  keep_rank_logs();
  keeper_ = std::make_unique<CheckpointKeeper>(
      folder_.path() + "/checkpoints",
      KeeperOptions{.on_warning = on_warning_, .strict = config.strict});
  if (!folder_.can_write() && config.strict) {
    throw IoError("--strict: no checkpoint could be saved: " + folder_.why_not());
  }
  if (!folder_.can_write()) {
    on_warning_(folder_.why_not() + "; training goes on without files");
  }
}

void RunFiles::claim() {
  try {
    if (restarts_allowed() && folder_.can_write()) {
      if (job_of(folder_.path()) != this_job()) {
        std::error_code error;  // What restarts cost another job is not for this one's summary.
        fs::remove(folder_.file("restarts"), error);
      }
      folder_.set_job(this_job());
    }
  } catch (const IoError& error) {
    on_warning_(error.what());
  }
}

void RunFiles::keep_rank_logs() {
  const auto environment = Environment::of_this_process();
  try {
    if (launcher_keeps_logs(environment) && folder_.can_write()) {
      stdout_log_ = keep_rank_logs_in(folder_.make_subfolder("log"), environment);
    }
  } catch (const IoError& error) {
    on_warning_(std::string("the output of ranks is not kept: ") + error.what());
  }
}

void RunFiles::open_logs(const std::optional<Position>& resumed) {
  if (!folder_.can_write()) {
    return;
  }
  RunLog::require_own_summary(folder_.path());
  try {
    if (resumed && !is_at_end(config_, *resumed)) {
      folder_.mark_unfinished();
    }
    const auto toml = to_toml(config_);
    checkpoint::FileSystem files;
    checkpoint::replace_file(files, folder_.path(), {"config.toml"},
                             [&](const auto& sink) { sink(std::as_bytes(std::span(toml))); });
    log_ = std::make_unique<RunLog>(folder_.path(), resumed.value_or(Position{}), on_warning_);
  } catch (const IoError& error) {
    if (config_.strict) {
      throw IoError(std::string("--strict: the run's files cannot be written: ") + error.what());
    }
    on_warning_(std::string("the run's files cannot be written; training goes on without: ") +
                error.what());
  }
}

bool RunFiles::finish(bool is_complete) {
  const bool is_saved = keeper_->finish();
  try {
    if (is_complete && is_saved) {
      folder_.mark_finished();
    }
  } catch (const IoError& error) {
    on_warning_(error.what());
  }
  if (const auto now = folder_.moved_to(); !now.empty()) {
    on_warning_("the run folder '" + folder_.path() +
                "' is no longer there under its name; what was written is in '" + now + "'");
  }
  return is_saved;
}

std::vector<std::string> RunFiles::files() const {
  std::vector<std::string> files;
  for (const char* name : {"config.toml", "checkpoints/last.pt", "checkpoints/best.pt"}) {
    if (is_there(folder_.path() + "/" + name)) {
      files.push_back(folder_.path() + "/" + name);
    }
  }
  if (!stdout_log_.empty() && is_there(folder_.path() + "/log")) {
    files.push_back(folder_.path() + "/log");
  }
  if (log_) {
    std::ranges::copy_if(log_->files(), std::back_inserter(files), is_there);
  }
  return files;
}

}  // namespace lockstep::train
