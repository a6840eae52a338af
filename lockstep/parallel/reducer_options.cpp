#include "lockstep/parallel/reducer_options.h"

#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

std::size_t bytes_of(double mebibytes) {
  const double bytes = mebibytes * 1024 * 1024;
  if (!(bytes >= 1) || bytes > 1e18) {
    throw UsageError("a bucket cap is " + std::to_string(mebibytes) +
                     " MiB, expected more than 0 and a size of memory");
  }
  return static_cast<std::size_t>(bytes);
}

ReadinessKind readiness_of(const DistributedDataParallelOptions& options) {
  return options.static_graph             ? ReadinessKind::kStaticGraph
         : options.find_unused_parameters ? ReadinessKind::kFindUnused
                                          : ReadinessKind::kAll;
}

}  // namespace

ReducerOptions reducer_options(const DistributedDataParallelOptions& options, const Group& group) {
  using Mode = GradientBucket::Mode;
  ReducerOptions chosen{
      .readiness = readiness_of(options),
      .buckets = {.mode = options.gradient_as_bucket_view ? Mode::kViews : Mode::kSeparate,
                  .allocate_in_buckets = options.allocate_in_buckets}};
  chosen.mode_with_hook = chosen.buckets.mode;
  if (group.size() == 1 && !options.reduce_alone) {
    chosen.buckets.mode = Mode::kStay;
  }
  if (!options.bucket_cap_mb_list.empty()) {
    if (options.bucket_cap_mb) {
      throw UsageError("both bucket_cap_mb and bucket_cap_mb_list are set, expected one of them");
    }
    chosen.limits.clear();
    for (const double cap : options.bucket_cap_mb_list) {
      chosen.limits.push_back(bytes_of(cap));
    }
    chosen.first_limits = chosen.limits;
    return chosen;
  }
  if (options.bucket_cap_mb) {
    chosen.limits = {bytes_of(*options.bucket_cap_mb)};
  }
  // Before the order of the gradients is known, one bucket: a guess could send it too early.
  chosen.first_limits = chosen.readiness == ReadinessKind::kFindUnused
                            ? chosen.limits
                            : std::vector<std::size_t>{std::numeric_limits<std::int64_t>::max()};
  return chosen;
}

}  // namespace lockstep::parallel
