// Counts how well a network does: loss, Acc@1 and Acc@5 over samples and ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "lockstep/comm/group.h"

namespace lockstep::train {

struct Scores {
  double loss = 0;  // Mean over the samples.
  double top1 = 0;  // Percent.
  double top5 = 0;  // Percent; of fewer than five classes, all of them.
  std::int64_t samples = 0;
};

// Sums on the device, in double precision; nothing waits for the device but read() and sums().
class Tally {
 public:
  // Loss x samples, right, among five, samples; and samples before the first loss that is infinite
  // or NaN.
  using Sums = std::array<double, 5>;

  explicit Tally(at::Device device);

  // `loss` is the mean of the batch; `target` has classes, or probabilities, of which the largest
  // counts.
  void add(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& loss);
  // As add(), without the samples whose class is data::kNotCounted, PyTorch's ignore_index; `loss`
  // is the mean of the others.
  void add_counted(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& loss);
  void reset();

  [[nodiscard]] Sums sums() const;
  void set_sums(const Sums& sums);

 private:
  at::Tensor sums_;  // Float64 [5].
};

Scores scores_of(const Tally::Sums& sums);

// Adds in the order of the ranks, so all ranks, and all runs, get the same bits. All ranks call it.
Scores scores_over(const Group& group, const Tally::Sums& sums);

// The mean loss of a batch, with label smoothing.
at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& target, double smoothing = 0);

}  // namespace lockstep::train
