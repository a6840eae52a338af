// Decides which gradients travel together, exactly as PyTorch's DistributedDataParallel does.
//
// Pure arithmetic over sizes: no tensors and no communication, so every rank that sees the same
// sizes computes the same plan without talking.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::parallel {

struct GradientInfo {
  std::size_t bytes = 0;
  int kind = 0;         // Index of the (dtype, device) pair; kinds never share a bucket.
  bool sparse = false;  // Travels alone.
};

struct Bucket {
  std::vector<std::size_t> parameters;  // In the order in which their gradients are packed.
  std::size_t limit = 0;                // The limit it was filled up to; 0 for a sparse gradient.

  bool operator==(const Bucket&) const = default;
};

// The caps of PyTorch's defaults: the first all-reduce starts early.
inline constexpr std::size_t kFirstBucketBytes = std::size_t{1} << 20;
inline constexpr std::size_t kBucketBytes = std::size_t{25} << 20;

// Walks the gradients and closes a kind's bucket as soon as it has reached the kind's current
// limit, so it overshoots by less than one gradient; the n-th bucket of a kind has the n-th limit,
// later ones the last. Every parameter is in exactly one bucket; buckets are sorted by their
// smallest parameter. Throws UsageError if there is no limit.
std::vector<Bucket> plan_buckets(std::span<const GradientInfo> gradients,
                                 std::span<const std::size_t> limits);

// The same for gradients in the order in which they became ready: order[i] is the parameter of
// gradients[i]. Buckets stay in the order in which they were closed; those that never were come
// last, by kind.
std::vector<Bucket> plan_buckets_in_order(std::span<const GradientInfo> gradients,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> limits);

}  // namespace lockstep::parallel
