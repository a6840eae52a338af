#include "lockstep/parallel/join/sample_count.h"

#include <ATen/ops/full.h>

#include <limits>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::parallel {

void SampleCount::begin(double samples) {
  if (!(samples >= 0) || samples == std::numeric_limits<double>::infinity()) {
    throw UsageError("mean_over_samples: this rank's batch has " + std::to_string(samples) +
                     " samples, expected a number from 0");
  }
  if (sum_) {  // A forward without a backward.
    sum_->wait();
  }
  own_ = samples;
  total_ = at::full({1}, samples, at::TensorOptions(at::kDouble).device(device_));
  sum_ = group_.all_reduce(total_);
}

double SampleCount::divisor() {
  sum_->wait();
  group_.synchronize(device_);
  return own_ > 0 ? total_.item<double>() / own_ : std::numeric_limits<double>::infinity();
}

}  // namespace lockstep::parallel
