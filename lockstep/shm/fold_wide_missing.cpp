// Where every processor of the kind has the same vectors.
#include "lockstep/shm/fold_wide.h"

namespace lockstep::shm {

bool can_fold_wide() { return false; }
void fold_wide(const Reduction&, const Operands&) {}

}  // namespace lockstep::shm
