// What `lockstep bench loader` measures: loaders that take turns, ours and PyTorch's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/driver/rank_group.h"

namespace lockstep::bench {

// One row's work with one number of workers.
struct LoaderContender {
  bool ours = false;
  std::string row;              // As benchmarks/peers/loader.py knows it.
  int workers = 0;              // -1: kAuto.
  std::vector<double> seconds;  // In each round.
  std::int64_t samples = 0;     // In each.
  double sum = 0;               // What all that do the same must agree in.
  std::string missing;          // Why it took no part.

  [[nodiscard]] std::optional<double> median_seconds() const;
};

struct LoaderFolders {
  std::string photos;
  std::string files;
};

class LoaderJobs {
 public:
  // Starts both; without a `python` ours alone.
  LoaderJobs(const LoaderFolders& folders, const std::string& python);

  // Each contender has one turn in a round, the next one goes the opposite way; a first one warms
  // up and does not count. Throws Error naming two that do the same row and differ in their sum.
  void take_turns(std::vector<LoaderContender>& contenders, int rounds);

  // Waits for a regular end of both.
  void finish();

 private:
  void take_turn(LoaderContender& contender);

  std::unique_ptr<RankGroup> ours_;
  std::unique_ptr<RankGroup> peer_;
};

}  // namespace lockstep::bench
