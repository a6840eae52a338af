// How busy a GPU is: at one moment, and in the mean of several.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::train {

// What the driver cannot tell is not there.
struct GpuUse {
  std::optional<int> utilization;             // Percent of the last moments in which a kernel ran.
  std::optional<std::uint64_t> memory_bytes;  // Used by all processes.
  std::optional<std::uint64_t> memory_total;
  std::optional<double> watts;
};

// Each value's mean is over the moments that had it.
class MeanGpuUse {
 public:
  void add(const GpuUse& use);
  // Empty if nothing was added.
  [[nodiscard]] std::optional<GpuUse> mean() const;

 private:
  struct Mean {
    double sum = 0;
    int count = 0;
    void add(double value);
  };

  Mean utilization_;
  Mean memory_bytes_;
  Mean watts_;
  std::optional<std::uint64_t> memory_total_;
};

}  // namespace lockstep::train
