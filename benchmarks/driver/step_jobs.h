// The jobs that `lockstep bench step` lets take turns, for one model and number of ranks.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/driver/rank_group.h"
#include "benchmarks/driver/step_result.h"

namespace lockstep::bench {

struct StepJobsOptions {
  std::string model;
  int ranks = 1;
  int batch_size = 32;
  std::string device;         // "cpu" or "cuda".
  std::string backend;        // Our group's.
  std::string python;         // Empty: PyTorch takes no part.
  std::string precision;      // On a GPU: "bf16", "fp16", "tf32" or "fp32".
  bool cuda_graph = false;    // For our contenders.
  bool reduce_alone = false;  // The same.
  // What ours does otherwise: "", "zero" (PyTorch's, too), "in_backward" or
  // "data_parallel".
  std::string variant;
  std::string spoiled;  // A contender that starts from wrong weights.
};

class StepJobs {
 public:
  // Starts all contenders and lets them do `checked_steps` steps. Throws Error if one cannot be
  // started, and with the names of two contenders whose losses differ: all must begin with the same
  // one, and C++ and Python agree in all. Where the two add gradients in different orders, each is
  // compared with the other library adding in that order. Blocks, as all that follows.
  StepJobs(const StepJobsOptions& options, int checked_steps);

  // Why a contender takes no part; empty if it does.
  [[nodiscard]] const std::string& missing(StepContender contender) const {
    return missing_[contender];
  }

  struct Turn {
    int warm = 0;
    int steps = 0;
  };
  // Records the turn in the row; the processes of a plain contender work at the same time, and
  // their mean counts. Throws Error if a loss is no number.
  void take_turn(StepContender contender, const Turn& turn, StepRow& row);

  // Waits for a regular end of all jobs; without it they are killed.
  void finish();

 private:
  using Jobs =
      std::vector<std::unique_ptr<RankGroup>>;  // One, or each process of a plain contender.

  void start(StepContender contender, const StepJobsOptions& options);
  void compare_with_pytorch(const StepJobsOptions& options, int checked_steps) const;
  static std::vector<std::string> tell(Jobs& jobs, const std::string& order);

  std::array<Jobs, kStepContenders> jobs_;
  std::array<std::string, kStepContenders> missing_;
  std::array<std::vector<double>, kStepContenders> losses_;
};

}  // namespace lockstep::bench
