// For ranks with batches of different sizes: the number by which a rank's gradients are divided, so
// that their sum over the ranks is the gradient of the mean over all samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

class SampleCount {
 public:
  // Counts travel on this device.
  SampleCount(const Group& group, at::Device device) : group_(group), device_(device) {}

  // Starts to sum what the ranks have; a collective. Throws UsageError for less than no samples.
  void begin(double samples);
  // Waits for the sum. For a rank without samples it is infinite. On a GPU the host waits.
  [[nodiscard]] double divisor();

 private:
  Group group_;
  at::Device device_;
  double own_ = 0;
  at::Tensor total_;  // When sum_ is done.
  std::optional<Work> sum_;
};

}  // namespace lockstep::parallel
