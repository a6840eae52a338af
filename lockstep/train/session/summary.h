// What a run says at its end, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/config/config.h"
#include "lockstep/train/loop/trainer.h"

namespace lockstep::train {

struct SummaryFacts {
  const TrainConfig& config;
  const Outcome& outcome;
  int ranks = 1;
  std::vector<std::string> files;
  std::vector<std::string> warnings;
  std::string unit = "images";
  int restarts = 0;
  double restart_seconds = 0;
  std::optional<double> seconds_of_job = {};    // With restarts; nothing if that is not known.
  bool is_resumed = false;                      // Earlier starts took time, too.
  std::optional<std::int64_t> bad_files = {};   // For data that is read from image files.
  std::vector<std::string> bad_file_list = {};  // Which and why; some of each reason.
  std::vector<std::string> data = {};           // What its files have to tell, line by line.
};

// "the same command", with --resume if it would not find the run in the folder `run` by itself.
std::string command_to_go_on(const TrainConfig& config, const std::string& run);

// 0 if the run was finished and its last checkpoint saved, else 1. A run that a signal stopped has
// that signal's code if its checkpoint was saved, else kStoppedUnsaved: the run did not crash, and
// it cannot go on where it stopped.
int exit_code_of(const Outcome& outcome);

std::string summary_text(const SummaryFacts& facts);
// One JSON object on a line.
std::string summary_json(const SummaryFacts& facts);

// What --eval-only prints; `test` are the scores of the test part, if there is one.
std::string evaluation_text(const Scores& scores, bool json,
                            const std::optional<Scores>& test = {});

}  // namespace lockstep::train
