// What a run says when it ends: how good, how fast, where the time went, what to do next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/run/gpu_use.h"

namespace lockstep::train {

struct ClosingSummary {
  std::string headline;  // "finished 3 epochs", "stopped by SIGINT in epoch 2, step 113".

  std::optional<double> loss = {};  // In the last validation.
  std::optional<double> top1 = {};  // Percent.
  std::optional<double> top5 = {};
  std::optional<double> best_top1 = {};
  std::optional<std::int64_t> best_epoch = {};  // From 1 on.

  std::optional<double> test_loss = {};  // The test part's.
  std::optional<double> test_top1 = {};
  std::optional<double> test_top5 = {};

  double wall_seconds = 0;
  std::string time_note = {};                     // What they cover, if not the whole run.
  std::optional<double> samples_per_second = {};  // In training, all ranks together.
  std::string unit = "images";
  int ranks = 1;

  // Shares of the training time, 0 to 1; the rest is everything else.
  std::optional<double> compute = {};
  std::optional<double> communication = {};
  std::optional<double> data_wait = {};

  std::optional<GpuUse> gpu = {};  // The mean of the run.

  int restarts = 0;
  double restart_seconds = 0;  // In all restarts: from the death of a rank to the next new step.

  std::vector<std::string> files = {};     // In the order in which they are shown.
  std::vector<std::string> data = {};      // Bad files and caches, line by line.
  std::vector<std::string> warnings = {};  // What was lost: a full disk, say.
  std::string next_command = {};
};

// Lines of at most 80 columns where paths and commands allow it, each with a newline.
std::string closing_text(const ClosingSummary& summary);

}  // namespace lockstep::train
