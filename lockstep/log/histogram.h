// Counts values in the buckets that torch.utils.tensorboard uses by default.
#pragma once

#include <span>
#include <vector>

namespace lockstep::log {

// As TensorFlow's HistogramProto: bucket i holds the values from bucket_limit[i - 1] up to, and
// without, bucket_limit[i].
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> bucket_limit;
  std::vector<double> bucket;
};

// The buckets that are not empty, those between them, and an empty one before them. NaN and what is
// beyond 1e20 is in no bucket; without any bucket both lists are empty. Throws UsageError if there
// is no value.
Histogram make_histogram(std::span<const double> values);
Histogram make_histogram(std::span<const float> values);

}  // namespace lockstep::log
