// Where the output of ranks is kept: in the folder of the run, by the launcher that reads it.
#pragma once

#include <string>

#include "lockstep/base/environment.h"

namespace lockstep::train {

// Whether the launcher of this process waits to hear where to keep logs.
bool launcher_keeps_logs(const Environment& environment);

// Tells it: in `folder`, which is there, below a name of this job's own, as --log-dir has it.
// Returns the file for this rank's own stdout, which the launcher does not see. Throws IoError.
std::string keep_rank_logs_in(const std::string& folder, const Environment& environment);

}  // namespace lockstep::train
