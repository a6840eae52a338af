// For architectures on which every processor has the same vectors.
#include "lockstep/shm/reduce/fold_avx2.h"

namespace lockstep::shm {

bool can_fold_avx2() { return false; }
void fold_avx2(const Reduction&, const Operands&) {}

}  // namespace lockstep::shm
