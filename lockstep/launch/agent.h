// The process that does a launcher's work on one node, in one thread around one poll().
#pragma once

#include "lockstep/base/fd.h"
#include "lockstep/launch/context.h"

namespace lockstep::launch {

// Runs the job and returns the exit code; every process it started is gone then. When
// `supervisor` (a pipe nobody writes to) reaches its end, the launcher that the user sees was
// killed: this process then kills everything, removes the temporary folder and exits.
int run_agent(const Context& context, UniqueFd supervisor);

}  // namespace lockstep::launch
