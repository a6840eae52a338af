// --dry-run: says what a run would do.
#pragma once

#include "lockstep/train/session/run_parts.h"

namespace lockstep::train {

// Reads all that the run would read, so that what must fail fails here, too. Writes nothing. All
// ranks call it.
void dry_run(const RunParts& run);

}  // namespace lockstep::train
