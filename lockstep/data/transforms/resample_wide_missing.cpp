#include "lockstep/data/transforms/resample_wide.h"

namespace lockstep::data {

const ResampleLoops* wide_resample_loops() { return nullptr; }

}  // namespace lockstep::data
