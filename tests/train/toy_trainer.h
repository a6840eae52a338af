// A trainer of a small table and network, and what it tells.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/train/loop/trainer.h"
#include "tests/train/toys.h"

namespace lockstep::train::toys {

struct Seen : Observer {
  void on_interval(const Interval& interval) override { losses.push_back(interval.train.loss); }
  void on_epoch(const Epoch& epoch) override {
    epochs.push_back(epoch.validation.samples);
    rates.push_back(epoch.samples_per_second);
    rows.insert(rows.end(), {epoch.train.loss, epoch.train.top1, epoch.validation.loss, epoch.lr});
  }
  void on_test(const Position& position, const Scores& test) override {
    tests.emplace_back(position.epoch, test.samples);
  }
  std::vector<double> losses;
  std::vector<std::int64_t> epochs;
  std::vector<double> rates;
  std::vector<std::pair<std::int64_t, std::int64_t>> tests;  // Behind which epoch, how many.
  std::vector<double> rows;                                  // In the log.
};

// 12 steps an epoch.
struct ToyRun {
  explicit ToyRun(TrainConfig given, TrainerOptions options = {}, std::int64_t test = 0)
      : config(std::move(given)),
        source((at::manual_seed(3), toys::table(96, 30, test))),
        batches(plan_batches(config, 96, 1)),
        learner(config, batches, toys::network(), world) {
    options.observers.push_back(&seen);
    trainer.emplace(config, source, batches, learner, world, options);
  }
  TrainConfig config;
  Group world = init_process_group();
  DataSource source;
  BatchPlan batches;
  Learner learner;
  Seen seen;
  std::optional<Trainer> trainer;
};

inline const TrainConfig kShort{.batch_size = 8, .epochs = 2, .log_interval = 1};

}  // namespace lockstep::train::toys
