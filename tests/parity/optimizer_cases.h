// More cases of ddp_cases.cpp.
#pragma once

#include "tests/parity/table.h"

namespace lockstep::parity {

// An optimizer whose state is in shares, or whose steps are made in backward.
void add_optimizers(Table& t);

// SyncBatchNorm, batches of different sizes and DataParallel: compared with one process on the
// whole batch.
void add_whole(Table& t);

}  // namespace lockstep::parity
