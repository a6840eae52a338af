// How busy a GPU is, at one moment.
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

}  // namespace lockstep::train
