// Compiled for AVX2.
#include "lockstep/shm/fold_wide.h"

#include "lockstep/shm/fold_loops.h"

namespace lockstep::shm {

bool can_fold_wide() { return __builtin_cpu_supports("avx2") != 0; }

void fold_wide(const Reduction& reduction, const Operands& operands) {
  fold_any(reduction, operands);
}

}  // namespace lockstep::shm
