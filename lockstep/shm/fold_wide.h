// The loops of fold_loops.h for processors with wider vectors than every machine has. The results
// are the same, bit for bit.
#pragma once

#include "lockstep/shm/reduction.h"

namespace lockstep::shm {

struct Operands {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::size_t count;
  std::span<const double> factors;  // Of kPremulSum.
  std::size_t divisor = 1;
};

// Whether this processor has what fold_wide() was compiled for.
bool can_fold_wide();
void fold_wide(const Reduction& reduction, const Operands& operands);

}  // namespace lockstep::shm
