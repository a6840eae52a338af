// What `lockstep bench step` found, and how it is shown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::bench {

// Who takes part. Each of the two libraries has a plain contender: as many processes that know
// nothing of each other.
enum StepContender : std::size_t { kOurs, kPlainCpp, kPytorch, kPlainPython, kStepContenders };

struct StepContenderName {
  const char* name;     // In JSON.
  const char* heading;  // In the table.
};
inline constexpr std::array<StepContenderName, kStepContenders> kStepContenderNames{
    {{"ours", "ours"},
     {"plain_cpp", "plain C++"},
     {"pytorch", "PyTorch"},
     {"plain_python", "plain Py"}}};

struct StepMeasured {
  std::vector<double> rounds;  // Seconds of a step, the median of each round.
  int steps = 0;               // Timed in each round.
  std::int64_t peak_bytes = 0;
  std::int64_t optimizer_bytes = 0;  // Its state on rank 0.
  std::optional<double> loss;        // After the last round.

  // Nothing if it took no part.
  [[nodiscard]] std::optional<double> seconds() const;
  [[nodiscard]] std::optional<double> peak() const;
  [[nodiscard]] std::optional<double> optimizer() const;
};

struct StepRow {
  std::string model;
  std::string variant;  // See StepJobsOptions.
  std::string device;
  int ranks = 0;
  int batch_size = 0;         // A rank's.
  std::string precision;      // What it computes in.
  bool cuda_graph = false;    // Our contenders replay a recorded step.
  bool reduce_alone = false;  // Ours sums its gradients with one rank, too.
  std::array<StepMeasured, kStepContenders> measured;
  std::string pytorch_missing;  // Why it took no part.
  // Figures of our DistributedDataParallel.
  std::int64_t bytes = 0;
  std::int64_t copied = 0;
  std::int64_t buckets = 0;
  std::vector<double> hidden;  // In each round; empty without DistributedDataParallel.

  // How many times longer the first takes than the second: median over the rounds, in each of which
  // they take turns. Nothing if one took no part.
  [[nodiscard]] std::optional<double> ratio(StepContender first, StepContender second) const;
  [[nodiscard]] std::optional<double> hidden_median() const;
  // Over all ranks.
  [[nodiscard]] std::optional<double> samples_per_second(StepContender contender) const;
  // DistributedDataParallel against its plain contender: the plain step divided by its step, and
  // what it adds to the plain step.
  [[nodiscard]] std::optional<double> efficiency(StepContender contender) const;
  [[nodiscard]] std::optional<double> overhead(StepContender contender) const;
};

// What the columns are.
inline constexpr const char* kStepNotes =
    R"(One step: zero_grad, forward, cross entropy, backward, SGD with momentum and weight decay; one thread a rank.
  ours, PyTorch        DistributedDataParallel over a group of that many ranks, a group of one too
  plain C++, plain Py  the same module without it, in as many processes at the same time, unconnected
  effic.               step time of the plain side divided by that of DistributedDataParallel
  overhead             what DistributedDataParallel adds to the plain side's step
  peak memory          of the process of rank 0; on a GPU, of its tensors
  state                of the optimizer, on rank 0, MiB
  bytes                of gradients that a rank of ours sums in each step
  copied               of these, into buckets; the others are made there
  samples/s            of all ranks
  hidden               the part of our communication during which backward went on
A model's name may be followed by what ours does otherwise: zero (ZeroRedundancyOptimizer; PyTorch's, too),
in_backward (the optimizer steps each bucket in backward) or data_parallel (DataParallel: one process with
as many replicas).
With --backend barrier, ours are plain modules that only wait for each other after each step.
Ratios are medians over the rounds. Sides started from equal weights, and their losses were compared.
)";

void print_step_header(int rounds);
void print_step_row(const StepRow& row);
// What is not time; after all rows.
void print_step_memory(const std::vector<StepRow>& rows);
void print_step_json(const StepRow& row);

}  // namespace lockstep::bench
