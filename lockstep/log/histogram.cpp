#include "lockstep/log/histogram.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::log {
namespace {

// -1e20 ... -1e-12, 0, 1e-12 ... 1e20, each a tenth more than the one before.
std::vector<double> make_edges() {
  std::vector<double> positive;
  double edge = 1e-12;
  while (edge < 1e20) {
    positive.push_back(edge);
    edge *= 1.1;
  }
  std::vector<double> edges;
  for (auto it = positive.rbegin(); it != positive.rend(); ++it) {
    edges.push_back(-*it);
  }
  edges.push_back(0);
  edges.insert(edges.end(), positive.begin(), positive.end());
  return edges;
}

// numpy's rule: the last bucket has its right edge, too.
void count(const std::vector<double>& edges, double value, std::vector<double>& counts) {
  if (!(value >= edges.front() && value <= edges.back())) {
    return;
  }
  const auto above = std::upper_bound(edges.begin(), edges.end(), value);
  const auto bucket = std::min(static_cast<std::size_t>(above - edges.begin()), counts.size()) - 1;
  counts[bucket] += 1;
}

// As numpy's min() and max(): NaN if there is one.
double lesser(double a, double b) { return std::isnan(a) || a <= b ? a : b; }

template <class Value>
Histogram histogram_of(std::span<const Value> values) {
  if (values.empty()) {
    throw UsageError("make_histogram: no values, expected at least one");
  }
  const auto edges = make_edges();
  std::vector<double> counts(edges.size() - 1);
  Histogram result{.min = values[0], .max = values[0], .num = static_cast<double>(values.size())};
  for (const double value : values) {
    result.min = lesser(result.min, value);
    result.max = -lesser(-result.max, -value);
    result.sum += value;
    result.sum_squares += value * value;
    count(edges, value, counts);
  }
  const auto filled = [](double number) { return number > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), filled) - counts.begin();
  const auto end = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), filled);
  if (end == 0) {
    return result;
  }
  result.bucket.push_back(0);
  result.bucket.insert(result.bucket.end(), counts.begin() + first, counts.begin() + end);
  result.bucket_limit.assign(edges.begin() + first, edges.begin() + end + 1);
  return result;
}

}  // namespace

Histogram make_histogram(std::span<const double> values) { return histogram_of(values); }
Histogram make_histogram(std::span<const float> values) { return histogram_of(values); }

}  // namespace lockstep::log
