// The weights that a run begins with, or that --eval-only is about.
#pragma once

#include "lockstep/train/session/run_parts.h"

namespace lockstep::train {

// Those of --init-weights, if it is given. All ranks call it. Throws UsageError if the file is not
// there or is no checkpoint.
void load_initial_weights(const RunParts& run);

// Those of --init-weights, else of the checkpoint that --resume chooses. All ranks call it. Throws
// UsageError if there is none, or if what it would be scored with does not fit it: other classes,
// samples that were learned, tensors that are missing.
void load_to_evaluate(const RunParts& run);

}  // namespace lockstep::train
