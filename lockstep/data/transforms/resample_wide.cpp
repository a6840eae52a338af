// Compiled for AVX2.
#include "lockstep/data/transforms/resample_wide.h"

#include "lockstep/data/transforms/resample_loops.h"

namespace lockstep::data {

const ResampleLoops* wide_resample_loops() {
  static constexpr ResampleLoops kLoops{.resample_rows = resample_rows, .blend_rows = blend_rows};
  return __builtin_cpu_supports("avx2") != 0 ? &kLoops : nullptr;
}

}  // namespace lockstep::data
