#include "lockstep/train/session/session.h"

#include <ATen/Context.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/stream.h"
#include "lockstep/train/input/image_parts.h"
#include "lockstep/train/loop/agreement.h"
#include "lockstep/train/loop/gpu_settings.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/loop/saving_note.h"
#include "lockstep/train/loop/trainer.h"
#include "lockstep/train/report/console.h"
#include "lockstep/train/report/profile.h"
#include "lockstep/train/report/restart_cost.h"
#include "lockstep/train/run/gpu_monitor.h"
#include "lockstep/train/run/stop_request.h"
#include "lockstep/train/session/choose_network.h"
#include "lockstep/train/session/describe_run.h"
#include "lockstep/train/session/dry_run.h"
#include "lockstep/train/session/launched_job.h"
#include "lockstep/train/session/run_files.h"
#include "lockstep/train/session/starting_weights.h"
#include "lockstep/train/session/summary.h"

namespace lockstep::train {
namespace {

// One epoch of few steps, and no file.
TrainConfig adjusted(TrainConfig config) {
  if (config.fast_dev_run > 0) {
    config.epochs = 1;
    if (!config.eval_only) {
      config.resume = "no";
    }
  }
  return config;
}

class Session {
 public:
  Session(const TrainConfig& config, const Group& world, const Networks& networks)
      : config_(adjusted(config)),
        world_(world),
        source_(open_data(config_)),
        model_(model_for(config_, source_)),
        batches_(
            plan_batches(config_, source_.train->size(), ranks_to_train(config_, world.size()))),
        console_(config.json ? STDERR_FILENO : STDOUT_FILENO, config_.epochs, batches_,
                 source_.is_table() ? "rows" : "images", config.json ? nullptr : &output_) {
    config_.model = model_;
    if (config_.data.empty()) {
      config_.data = source_.name;
    }
    require_fitting_flags(config_, source_);
    require_same(world_, settings_of_rank(config_, batches_, source_));
    apply_gpu_settings(config_);
    device::set_device(world_.device());
    at::manual_seed(config_.seed);
    learner_ = std::make_unique<Learner>(config_, batches_, make_network(model_, source_, networks),
                                         world_);
    at::manual_seed(config_.seed + static_cast<std::uint64_t>(world_.rank()));
  }

  int run() {
    say(describe_run({config_, source_, batches_, learner_->parameters()}, world_));
    if (writes()) {
      std::ranges::for_each(source_.warnings, [&](auto& text) { console_.on_warning(text); });
    }
    if (config_.dry_run) {
      dry_run(parts());
      return 0;
    }
    return config_.eval_only ? evaluate() : train();
  }

 private:
  [[nodiscard]] bool writes() const { return world_.rank() == 0; }
  void say(const std::string& text) {
    if (writes()) {
      console_.say(text);
    }
  }

  [[nodiscard]] RunParts parts() {
    return {config_, world_, source_, model_, batches_, *learner_, [this](const std::string& text) {
              say(text);
            }};
  }

  void tell(const RecordingNews::News& news) {
    if (news.is_warning) {
      console_.on_warning(news.text);
    } else if (!news.text.empty()) {
      console_.say(news.text);
    }
  }

  int evaluate() {
    load_to_evaluate(parts());
    Trainer trainer(config_, source_, batches_, *learner_, world_, {});
    const auto scores = trainer.validate_once().value();  // No signal stops it.
    const auto test = trainer.test_once();
    for (const auto& line : image_news(world_, source_).lines) {
      say(line);
    }
    if (writes()) {
      require_printed(evaluation_text(scores, config_.json, test));
    }
    return 0;
  }

  int train() {
    const StopRequest stop;
    const bool has_files = writes() && config_.fast_dev_run == 0;
    const int restarted = restart_count();
    std::optional<RunFiles> files;
    const auto start = on_rank_0(world_, [&] {
      if (!has_files) {
        return std::string();
      }
      files.emplace(config_, RunFiles::Names{source_.name, model_}, restarted > 0,
                    [&](const std::string& warning) { console_.on_warning(warning); });
      return files->checkpoint();
    });
    if (files && !files->stdout_log().empty()) {
      output_.open(files->stdout_log(), [&](const auto& text) { console_.on_warning(text); });
    } else {
      output_.close();
    }
    const auto loaded =
        load_on_all_ranks(world_, start, restarted > 0 ? "" : flag_of_resume(config_));
    if (restarted > 0 && is_done(files)) {
      return finish_again(loaded.value(), files, restarted);
    }
    if (!loaded) {
      load_initial_weights(parts());
    }
    TrainerOptions options;
    options.signal = [] { return StopRequest::signal(); };
    if (files) {
      options.keeper = &files->keeper();
      options.job = restarts_allowed() ? this_job() : "";
    }
    const GpuMonitor monitor(writes() ? device::pci_bus_id(world_.device()) : "");
    if (monitor.why_not().empty()) {
      options.gpu_use = [&] { return monitor.read(); };
    }
    Profile profile(config_.profile && writes(), files ? files->folder() : ".");
    RecordingNews recording(writes() && records_steps(config_, batches_, world_.device()));
    options.each = [&](std::int64_t) {
      profile.on_step();
      tell(recording.after_step(learner_->is_recorded(), learner_->why_eager()));
    };
    if (writes()) {
      options.observers.push_back(&console_);
    }
    Trainer trainer(config_, source_, batches_, *learner_, world_, options);
    std::optional<Position> resumed;
    if (loaded) {
      trainer.resume(loaded->checkpoint);
      resumed = position_from(loaded->checkpoint.metrics);
      say(resumed_text(*loaded, *resumed, config_));
    }
    std::optional<RestartCost> cost;
    if (files && restarts_allowed()) {
      cost.emplace(files->folder() + "/restarts", restarted, first_attempt_began());
      trainer.add_observer(*cost);
    }
    on_rank_0(world_, [&] {
      if (files) {
        files->open_logs(resumed);
      }
      return std::string();
    });
    if (files && files->log() != nullptr) {
      trainer.add_observer(*files->log());
    }
    const auto outcome = run_to_end(trainer, files);
    if (cost && outcome.stopped_by == 0) {
      cost->on_end();
    }
    profile.finish();
    std::vector<std::string> extra;
    if (!profile.file().empty()) {
      extra.push_back(profile.file());
    }
    if (!profile.why_not().empty()) {
      console_.on_warning(profile.why_not());
    }
    return finish(outcome, files, {extra, cost ? &*cost : nullptr, resumed.has_value()});
  }

  // If a rank dies and no launcher starts it again, rank 0 says how to go on.
  Outcome run_to_end(Trainer& trainer, std::optional<RunFiles>& files) {
    try {
      return trainer.run();
    } catch (const PeerError&) {
      if (files && !restarts_allowed() && files->keeper().finish() && trainer.saved_step() > 0) {
        say("HINT: " + command_to_go_on(config_, files->folder()) + " goes on from step " +
            std::to_string(trainer.saved_step()) + ", the last one that is saved");
      }
      throw;
    }
  }

  // Whether the ranks died when all was done.
  bool is_done(const std::optional<RunFiles>& files) {
    const auto run =
        on_rank_0(world_, [&] { return files && files->is_done() ? files->folder() : ""; });
    if (!run.empty()) {
      say("the run '" + run + "' was finished before a rank died: nothing is left to train");
    }
    return !run.empty();
  }

  // The process that died may have printed nothing: --json promises one object.
  int finish_again(const LoadedCheckpoint& loaded, const std::optional<RunFiles>& files,
                   int restarted) {
    require_whole(learner_->load_weights(loaded.checkpoint));
    Outcome outcome;
    outcome.test = Trainer(config_, source_, batches_, *learner_, world_, {}).test_once();
    const auto news = image_news(world_, source_);
    if (writes() && config_.json) {
      outcome.position = position_from(loaded.checkpoint.metrics);
      outcome.early = outcome.position.epoch < config_.epochs;
      RestartCost cost(files->folder() + "/restarts", restarted);
      cost.on_end();
      SummaryFacts facts{config_, outcome, world_.size(), files->files(), console_.warnings()};
      facts.bad_files = news.bad_files;
      facts.bad_file_list = news.bad_file_list;
      facts.restarts = cost.restarts();
      facts.restart_seconds = cost.seconds();
      facts.seconds_of_job = cost.seconds_of_job();
      print_end(summary_json(facts));
    }
    return 0;
  }

  struct Extras {
    std::vector<std::string> files;
    const RestartCost* cost;
    bool is_resumed;
  };
  int finish(Outcome outcome, std::optional<RunFiles>& files, const Extras& extras) {
    console_.finish();
    if (files) {
      const SavingNote note(world_, outcome.position.step);
      outcome.is_saved = files->finish(outcome.stopped_by == 0);
    }
    // After the files are written, which must not depend on whether the other ranks still live.
    const auto news = image_news(world_, source_);
    if (writes()) {
      SummaryFacts facts{config_, outcome, world_.size(), {}, console_.warnings()};
      if (files) {
        facts.files = files->files();
      }
      facts.files.insert(facts.files.end(), extras.files.begin(), extras.files.end());
      facts.unit = source_.is_table() ? "rows" : "images";
      facts.bad_files = news.bad_files;
      facts.bad_file_list = news.bad_file_list;
      facts.data = news.lines;
      facts.is_resumed = extras.is_resumed;
      if (extras.cost != nullptr) {
        facts.restarts = extras.cost->restarts();
        facts.restart_seconds = extras.cost->seconds();
        facts.seconds_of_job = extras.cost->seconds_of_job();
      }
      print_end(config_.json ? summary_json(facts) : summary_text(facts));
    }
    // Nobody leaves before the checkpoint is written.
    const int code =
        std::stoi(on_rank_0(world_, [&] { return std::to_string(exit_code_of(outcome)); }));
    // A checkpoint that could not be saved is the exit code of rank 0 alone, which a launcher then
    // names. How a stop ended is the exit code of all ranks.
    return world_.rank() != 0 && outcome.stopped_by == 0 ? 0 : code;
  }

  // A run that is complete does not fail because stdout is closed or full.
  static bool print(const std::string& text) {
    const NoSigpipe no_sigpipe;
    return write_all(STDOUT_FILENO, text);
  }
  void print_end(const std::string& text) {
    print(text);
    output_.write(text);
  }
  static void require_printed(const std::string& text) {
    if (!print(text)) {
      throw IoError(
          "printing the scores: stdout cannot be written; free some space, or redirect it");
    }
  }

  TrainConfig config_;
  Group world_;
  DataSource source_;
  std::string model_;
  BatchPlan batches_;
  OutputLog output_;  // Rank 0's stdout, for the run's folder.
  Console console_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace

int train(const TrainConfig& config, const Group& world, const Networks& networks) {
  require_sensible(config);
  return Session(config, world, networks).run();
}

}  // namespace lockstep::train
