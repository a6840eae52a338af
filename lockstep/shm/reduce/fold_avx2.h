// The loops of fold_loops.h, compiled for processors with wide vectors. The results are the same,
// bit for bit.
#pragma once

#include "lockstep/shm/reduce/reduction.h"

namespace lockstep::shm {

struct Operands {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::size_t count;
  std::span<const double> factors;  // For kPremulSum.
  std::size_t divisor = 1;
};

// Whether this processor has what fold_avx2() was compiled for.
bool can_fold_avx2();
void fold_avx2(const Reduction& reduction, const Operands& operands);

}  // namespace lockstep::shm
