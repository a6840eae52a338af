#include "lockstep/train/session/dry_run.h"

#include "lockstep/base/error.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/loop/trainer.h"
#include "lockstep/train/session/describe_run.h"
#include "lockstep/train/session/run_files.h"
#include "lockstep/train/session/starting_weights.h"

namespace lockstep::train {

void dry_run(const RunParts& run) {
  const auto& config = run.config;
  if (config.eval_only) {
    load_to_evaluate(run);
    return;
  }
  run.say(describe_optimizer(config, run.batches));
  PlannedFiles files;
  const auto start = on_rank_0(run.world, [&] {
    if (config.fast_dev_run == 0) {
      files = plan_files(config, run.source.name, run.model);
    }
    if (!files.why_not.empty()) {
      throw IoError("--output: " + files.why_not +
                    ", so nothing would be saved; give a folder that you may write to");
    }
    return files.checkpoint;
  });
  const auto loaded = load_on_all_ranks(run.world, start, flag_of_resume(config));
  if (loaded) {
    Trainer(config, run.source, run.batches, run.learner, run.world, {}).resume(loaded->checkpoint);
  } else {
    load_initial_weights(run);
  }
  run.say(config.fast_dev_run > 0
              ? "nothing would be written"
              : "the run would use the folder '" + files.folder + "' and " +
                    (loaded ? "go on from '" + loaded->file + "'" : "start with the first epoch"));
}

}  // namespace lockstep::train
