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

// Folders of JPEGs, "" for none.
struct LoaderWork {
  std::string photos;
  std::string files;
  std::string large;
  double shortest_turn = 0.5;  // Seconds; what takes less is repeated for that long. 0: nothing is.
};

// What decodes JPEGs, and how much its SIMD gains for whole photographs on one core.
struct LoaderDecoder {
  std::string library;
  double simd_times_as_fast = 0;
};

// One that takes as long for a batch as training at `rate` would.
struct LoaderConsumer {
  double rate = 0;  // Images in a second.
  double seconds = 0;
  std::int64_t samples = 0;
  double data_wait = 0;  // Part of its time.
};

class LoaderJobs {
 public:
  // Starts both; without a `python` ours alone.
  LoaderJobs(const LoaderWork& work, const std::string& python);

  // Each contender has one turn in a round, the next one goes the opposite way; a first one warms
  // up and does not count. Throws Error naming two that do the same row and differ in their sum.
  void take_turns(std::vector<LoaderContender>& contenders, int rounds);

  // Ours, once.
  LoaderDecoder decoder();
  LoaderConsumer consumer(const std::string& row);

  // Waits for a regular end of both.
  void finish();

 private:
  void take_turn(LoaderContender& contender);

  LoaderWork work_;
  std::unique_ptr<RankGroup> ours_;
  std::unique_ptr<RankGroup> peer_;
};

}  // namespace lockstep::bench
