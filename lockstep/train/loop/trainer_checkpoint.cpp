// What a Trainer saves, and how it goes on from that.
#include <algorithm>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/train/loop/nonfinite.h"
#include "lockstep/train/loop/resume.h"
#include "lockstep/train/loop/saving_note.h"
#include "lockstep/train/loop/trainer.h"

namespace lockstep::train {
namespace {

constexpr const char* kScores = "rank_scores";
constexpr const char* kGlobalBatch = "the global batch";

std::string global_batch_in(const Settings& settings) {
  const auto found = std::ranges::find(settings, kGlobalBatch, &Settings::value_type::first);
  return found == settings.end() ? "" : found->second;
}

// Without --resume no, the run would be found again, and these flags refused again.
std::string hint_to_go_on(const TrainConfig& config, std::int64_t batch, const Settings& saved) {
  const auto saved_batch = global_batch_in(saved);
  if (!saved_batch.empty() && saved_batch != std::to_string(batch)) {
    return "--global-batch-size " + saved_batch + " is the same batch on any number of ranks; " +
           "give it with the run's other settings, or --resume no to start anew";
  }
  if (!config.init_weights.empty()) {
    return "add --resume no to start anew with the weights of --init-weights, or give the same "
           "flags to go on";
  }
  return "give the same flags to go on, --resume no to start anew, or --resume no --init-weights "
         "FILE to start a new run with its weights";
}

}  // namespace

Settings Trainer::settings() const {
  auto settings = settings_of(config_);
  settings.emplace_back(kGlobalBatch, std::to_string(batches_.global));
  settings.emplace_back("the data", data_.index);
  // An older lockstep drew by batch, other numbers, and did not save this line.
  if (config_.reprob > 0 && data_.folders.empty()) {
    settings.emplace_back("--reprob draws", "by sample");
  }
  return settings;
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const auto saved = settings_in(checkpoint.args);
  const auto text =
      difference(without_places(settings()),
                 without_places(saved.empty() ? saved : with_defaults(saved)), "there");
  if (!text.empty()) {
    throw UsageError("the checkpoint is of a run with other settings:" + text +
                     "\nHINT: " + hint_to_go_on(config_, batches_.global, saved));
  }
  learner_.load(checkpoint);
  position_ = position_from(checkpoint.metrics, learner_.lr());
  saved_step_ = position_.step;
  const checkpoint::Value others(checkpoint.others);
  const auto* scores = others.find(kScores);
  const auto ranks = rank_scores_from(scores == nullptr ? checkpoint::Value() : *scores);
  const auto own = share_of(ranks, world_.rank(), world_.size());
  epoch_.set_sums(own.epoch);
  interval_.set_sums(own.interval);
  if (static_cast<int>(ranks.size()) == world_.size()) {
    if (!set_rng_state(checkpoint.rng, {world_.rank(), world_.device()})) {
      warn(
          "the checkpoint has no random state for this device: the run goes on, but not to the "
          "bit");
    }
  } else {
    warn(
        "the checkpoint is of another number of ranks: the run goes on with the same batches, but "
        "not to the bit");
  }
}

void Trainer::require_finite(const std::vector<Tally::Sums>& ranks) const {
  require_finite_losses(config_, position_.step, ranks, batches_.per_rank * batches_.accumulation);
}

void Trainer::save(const SaveOptions& options) {
  learner_.wait_for_gpu();
  const auto scores = gather(control_, RankScores{epoch_.sums(), interval_.sums()});
  std::vector<Tally::Sums> ranks;
  std::ranges::transform(scores, std::back_inserter(ranks), &RankScores::interval);
  // All ranks find the same, and the last good checkpoint stays.
  require_finite(ranks);
  require_finite_weights(config_, position_.step, learner_.module());
  const auto rng = lockstep::rng_state(world_);
  const auto keep = [&] {
    if (options_.keeper != nullptr) {
      // The others may wait in either: in the last step they go on to the world's collectives.
      const SavingNote note(control_, position_.step);
      const SavingNote note_in_world(world_, position_.step);
      options_.keeper->save(snapshot(rng, scores), options);
      saved_step_ = position_.step;
    }
    return std::string();
  };
  if (config_.strict) {
    on_rank_0(control_, keep);  // Its error is that of all ranks.
  } else {
    keep();
  }
}

Checkpoint Trainer::snapshot(const RngState& rng, const std::vector<RankScores>& scores) const {
  Checkpoint checkpoint;
  learner_.save_to(checkpoint);
  checkpoint.epoch = position_.epoch;
  checkpoint.sampler = {config_.seed, position_.epoch, position_.step_in_epoch * batches_.global};
  checkpoint.rng = rng;
  checkpoint.metrics = to_value(position_);
  checkpoint::Dict args;
  for (const auto& [name, value] : settings()) {
    args.push_back({name, value});
  }
  checkpoint.args = std::move(args);
  checkpoint.class_names = data_.class_names;
  checkpoint.mean = data_.mean;
  checkpoint.std = data_.std;
  checkpoint.input_size = data_.input;
  checkpoint.others.push_back({kScores, to_value(scores)});
  set_job(checkpoint, options_.job);
  return checkpoint;
}

}  // namespace lockstep::train
