// The training loop: epochs of steps, each followed by validation, until the end or a signal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/device/steps_ahead.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"
#include "lockstep/train/loop/agreement.h"
#include "lockstep/train/loop/checkpoint_keeper.h"
#include "lockstep/train/loop/learner.h"
#include "lockstep/train/report/interval.h"
#include "lockstep/train/report/observer.h"
#include "lockstep/train/report/phase_times.h"
#include "lockstep/train/report/position.h"
#include "lockstep/train/report/rank_scores.h"

namespace lockstep::train {

struct TrainerOptions {
  std::vector<Observer*> observers;        // On rank 0; they outlive the trainer.
  CheckpointKeeper* keeper = nullptr;      // On rank 0; none: nothing is saved.
  std::string job;                         // In checkpoints; empty: not told.
  std::function<int()> signal;             // One that this process was asked to stop by, or 0.
  std::function<GpuUse()> gpu_use;         // On rank 0, where a driver tells.
  std::function<void(std::int64_t)> each;  // After each step of this process, with its number.
};

struct Outcome {
  Position position;
  Scores last;                 // The last validation's.
  std::optional<Scores> test;  // The test part's, with the weights of the end.
  int stopped_by = 0;          // The signal; 0: training is finished.
  bool early = false;          // --early-stop ended it.
  bool is_saved = true;        // The last checkpoint is on the disk; of a run without files, too.
  double seconds = 0;          // Since this start, validation included.
  std::int64_t samples = 0;    // Trained on in this start, over all ranks.
  PhaseTimes times;            // This rank's, since this start.
  MeanGpuUse gpu;              // Rank 0's, since this start.
};

// Whether nothing is left to train: all epochs are done, or --early-stop ends the run.
bool is_at_end(const TrainConfig& config, const Position& position);

// All ranks make it and call its functions together.
class Trainer {
 public:
  Trainer(const TrainConfig& config, const DataSource& data, const BatchPlan& batches,
          Learner& learner, const Group& world, TrainerOptions options);

  // On rank 0; it outlives the trainer.
  void add_observer(Observer& observer) { options_.observers.push_back(&observer); }

  // Goes on where the checkpoint was saved, in the middle of an epoch, too. Throws UsageError if it
  // was saved by a run with other settings.
  void resume(const Checkpoint& checkpoint);

  // Until all epochs are done and the test part is scored, or a rank has a signal: then all ranks
  // end after the same step or batch of validation, with a checkpoint.
  Outcome run();
  // Nothing if a signal stopped it. Behind it and test_once() the bad files that all ranks have met
  // are counted: throws IoError on all of them if there are too many.
  std::optional<Scores> validate_once();
  // The same of the test part; nothing if the data has none, too.
  std::optional<Scores> test_once();

  // The step of the checkpoint that was saved last, or resumed from; 0 if there is none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }

  // What the numbers depend on, for checkpoints and for ranks to compare.
  [[nodiscard]] Settings settings() const;

 private:
  void train_epoch();
  void prefetch_next_epoch();
  [[nodiscard]] bool is_stopped();
  [[nodiscard]] device::StepsAhead::Wait wait_for_step() const;
  void one_step(data::DataLoader::Iterator& batch);
  void finish_interval();
  void look_for_slow_rank();
  void finish_epoch();
  [[nodiscard]] std::optional<Scores> score(data::DataLoader& loader);
  void save(const SaveOptions& options);
  // Throws if a loss since the last interval was infinite or NaN; `ranks` has each rank's sums.
  void require_finite(const std::vector<Tally::Sums>& ranks) const;
  [[nodiscard]] Checkpoint snapshot(const RngState& rng,
                                    const std::vector<RankScores>& scores) const;
  void tell(const std::function<void(Observer&)>& what) const;
  void warn(const std::string& warning) const;
  [[nodiscard]] bool is_due(std::int64_t interval) const;

  const TrainConfig& config_;
  const DataSource& data_;
  BatchPlan batches_;
  Learner& learner_;
  Group world_;
  Group control_;  // Signals and scores, beside the gradients.
  TrainerOptions options_;
  data::DataLoader train_loader_;
  data::DataLoader validation_loader_;
  device::StepsAhead ahead_;
  Tally epoch_;
  Tally interval_;
  PhaseClock clock_;
  PhaseTimes marked_times_;  // At the end of the last interval.
  StepWork work_;
  SlowRankWatch slow_ranks_;
  Position position_;
  std::int64_t saved_step_ = 0;
  double epoch_rate_ = 0;  // Samples per second of the epoch's steps in this start.
  Outcome outcome_;
};

}  // namespace lockstep::train
