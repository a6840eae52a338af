// The jobs that `lockstep bench step` lets take turns, for one model and number of ranks.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/driver/rank_group.h"
#include "benchmarks/driver/step_result.h"

namespace lockstep::bench {

struct StepSidesOptions {
  std::string model;
  int ranks = 1;
  int batch_size = 32;
  std::string device;         // "cpu" or "cuda".
  std::string backend;        // For our group.
  std::string python;         // Empty: PyTorch takes no part.
  std::string precision;      // On a GPU: "bf16", "tf32" or "fp32".
  bool cuda_graph = false;    // For our sides.
  bool reduce_alone = false;  // The same.
  std::string spoiled;        // A side that starts from wrong weights.
};

class StepSides {
 public:
  // Starts all sides and lets them do `checked_steps` steps. Throws Error if one cannot be started,
  // and with the names of two sides whose losses differ: all must begin with the same one, and C++
  // and Python agree in all. Where the two add gradients in different orders, each is compared with
  // the other library adding in that order. Blocks, as all that follows.
  StepSides(const StepSidesOptions& options, int checked_steps);

  // Why a side takes no part; empty if it does.
  [[nodiscard]] const std::string& missing(StepSide side) const { return missing_[side]; }

  struct Turn {
    int warm = 0;
    int steps = 0;
  };
  // Records the turn in the row; the processes of a plain side work at the same time, and their
  // mean counts. Throws Error if a loss is no number.
  void take_turn(StepSide side, const Turn& turn, StepRow& row);

  // Waits for a regular end of all jobs; without it they are killed.
  void finish();

 private:
  using Jobs = std::vector<std::unique_ptr<RankGroup>>;  // One, or each process of a plain side.

  void start(StepSide side, const StepSidesOptions& options);
  void compare_with_pytorch(const StepSidesOptions& options, int checked_steps) const;
  static std::vector<std::string> tell(Jobs& jobs, const std::string& order);

  std::array<Jobs, kStepSides> jobs_;
  std::array<std::string, kStepSides> missing_;
  std::array<std::vector<double>, kStepSides> losses_;
};

}  // namespace lockstep::bench
