#include "lockstep/train/session/starting_weights.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/session/run_files.h"

namespace lockstep::train {
namespace {

// What rank 0 is to read; the others' path means nothing.
std::string initial_weights(const RunParts& run) {
  return on_rank_0(run.world, [&] {
    if (!run.config.init_weights.empty()) {
      require_initial_weights(run.config.init_weights);
    }
    return run.config.init_weights;
  });
}

}  // namespace

void load_initial_weights(const RunParts& run) {
  if (const auto loaded = load_on_all_ranks(run.world, initial_weights(run), "--init-weights")) {
    const auto missing = run.learner.load_weights(loaded->checkpoint);
    run.say("weights from '" + loaded->file + "'" +
            (missing.empty() ? "" : "; not in it, and as they were: " + join(missing, ", ")));
  }
}

void load_to_evaluate(const RunParts& run) {
  auto path = initial_weights(run);
  const std::string flag = path.empty() ? flag_of_resume(run.config) : "--init-weights";
  if (path.empty()) {
    path = on_rank_0(
        run.world, [&] { return checkpoint_to_evaluate(run.config, run.source.name, run.model); });
  }
  const auto loaded = load_on_all_ranks(run.world, path, flag);
  if (!loaded) {
    throw UsageError(
        "--eval-only has no weights: there is no run of this data and model; HINT: "
        "--resume PATH or --init-weights PATH");
  }
  require_whole(run.learner.load_weights(loaded->checkpoint));
  require_same_classes(run.source, loaded->checkpoint.class_names);
  require_unseen_samples(run.config, run.source, settings_in(loaded->checkpoint.args));
  run.say("weights from '" + loaded->file + "'");
}

}  // namespace lockstep::train
