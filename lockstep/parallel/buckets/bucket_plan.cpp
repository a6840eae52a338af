#include "lockstep/parallel/buckets/bucket_plan.h"

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

struct OpenBucket {
  Bucket bucket;
  std::size_t bytes = 0;
  std::size_t closed = 0;  // Buckets of this kind so far.
};

// `parameter_of(i)` is the parameter whose gradient is gradients[i].
template <class ParameterOf>
std::vector<Bucket> fill(std::span<const GradientInfo> gradients,
                         std::span<const std::size_t> limits, ParameterOf parameter_of) {
  if (limits.empty()) {
    throw UsageError("plan_buckets: there is no bucket limit, expected at least one");
  }
  std::vector<Bucket> plan;
  std::map<int, OpenBucket> open;  // Ordered: the tail of the plan must not vary by rank.
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const GradientInfo& gradient = gradients[i];
    if (gradient.sparse) {
      plan.push_back({{parameter_of(i)}, 0});
      continue;
    }
    OpenBucket& current = open[gradient.kind];
    const std::size_t limit = limits[std::min(current.closed, limits.size() - 1)];
    current.bucket.parameters.push_back(parameter_of(i));
    current.bucket.limit = limit;
    current.bytes += gradient.bytes;
    if (current.bytes >= limit) {
      plan.push_back(std::move(current.bucket));
      current = {.closed = current.closed + 1};
    }
  }
  for (auto& [kind, current] : open) {
    if (!current.bucket.parameters.empty()) {
      plan.push_back(std::move(current.bucket));
    }
  }
  return plan;
}

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const GradientInfo> gradients,
                                 std::span<const std::size_t> limits) {
  auto plan = fill(gradients, limits, [](std::size_t i) { return i; });
  std::sort(plan.begin(), plan.end(), [](const Bucket& a, const Bucket& b) {
    return a.parameters.front() < b.parameters.front();  // Each is in ascending order.
  });
  return plan;
}

std::vector<Bucket> plan_buckets_in_order(std::span<const GradientInfo> gradients,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> limits) {
  if (order.size() != gradients.size()) {
    throw UsageError("plan_buckets_in_order: there are " + std::to_string(order.size()) +
                     " parameters for " + std::to_string(gradients.size()) + " gradients");
  }
  return fill(gradients, limits, [&](std::size_t i) { return order[i]; });
}

}  // namespace lockstep::parallel
