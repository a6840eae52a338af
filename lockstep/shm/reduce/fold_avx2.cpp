// Compiled for AVX2.
#include "lockstep/shm/reduce/fold_avx2.h"

#include "lockstep/shm/reduce/fold_loops.h"

namespace lockstep::shm {

bool can_fold_avx2() { return __builtin_cpu_supports("avx2") != 0; }

void fold_avx2(const Reduction& reduction, const Operands& operands) {
  fold_any(reduction, operands);
}

}  // namespace lockstep::shm
