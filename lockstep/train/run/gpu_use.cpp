#include "lockstep/train/run/gpu_use.h"

#include <cmath>

namespace lockstep::train {

void MeanGpuUse::Mean::add(double value) {
  sum += value;
  ++count;
}

void MeanGpuUse::add(const GpuUse& use) {
  if (use.utilization) {
    utilization_.add(*use.utilization);
  }
  if (use.memory_bytes) {
    memory_bytes_.add(static_cast<double>(*use.memory_bytes));
  }
  if (use.watts) {
    watts_.add(*use.watts);
  }
  if (use.memory_total) {
    memory_total_ = use.memory_total;
  }
}

std::optional<GpuUse> MeanGpuUse::mean() const {
  GpuUse use;
  use.memory_total = memory_total_;
  if (utilization_.count > 0) {
    use.utilization = static_cast<int>(std::lround(utilization_.sum / utilization_.count));
  }
  if (memory_bytes_.count > 0) {
    use.memory_bytes = static_cast<std::uint64_t>(memory_bytes_.sum / memory_bytes_.count);
  }
  if (watts_.count > 0) {
    use.watts = watts_.sum / watts_.count;
  }
  const bool has_any = use.utilization || use.memory_bytes || use.watts || use.memory_total;
  return has_any ? std::optional(use) : std::nullopt;
}

}  // namespace lockstep::train
