// A run of a small table and network, as far as it is before its first step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/loop/checkpoint_keeper.h"
#include "lockstep/train/session/run_parts.h"
#include "tests/train/toys.h"

namespace lockstep::train::toys {

struct Run {
  explicit Run(TrainConfig given)
      : config(std::move(given)),
        source(table()),
        batches(plan_batches(config, source.train->size(), 1)),
        learner(config, batches, network(), world) {}

  [[nodiscard]] RunParts parts() {
    return {config, world, source, model, batches, learner, [this](const std::string& text) {
              said.push_back(text);
            }};
  }

  void set_weights(double value) const {
    const at::NoGradGuard no_grad;
    for (auto& parameter : learner.module().parameters()) {
      parameter.fill_(value);
    }
  }
  [[nodiscard]] bool all_weights_are(double value) const {
    for (const auto& parameter : learner.module().parameters()) {
      if (!parameter.eq(value).all().item<bool>()) {
        return false;
      }
    }
    return true;
  }

  // Its weights, as last.pt in that folder.
  void save_weights(const std::string& folder) const {
    Checkpoint checkpoint;
    learner.save_to(checkpoint);
    CheckpointKeeper keeper(folder, {.strict = true});
    keeper.save(checkpoint, {});
  }

  TrainConfig config;
  Group world = init_process_group();
  DataSource source;
  std::string model = "net";
  BatchPlan batches;
  Learner learner;
  std::vector<std::string> said;
};

}  // namespace lockstep::train::toys
