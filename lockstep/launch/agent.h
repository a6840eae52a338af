// The process that does a launcher's work on one node, in one thread around one poll().
#pragma once

#include "lockstep/base/fd.h"
#include "lockstep/launch/context.h"

namespace lockstep::launch {

// Runs the job and returns the exit code. Every process it started is gone by then.
//
// `supervisor` is a stream socket to the launcher that the user sees. Each byte received is the
// number of a signal that reached that launcher. The end of the stream means that it was killed:
// this process then kills everything, removes the temporary folder and exits. One byte goes the
// other way: the exit code, as soon as it is known.
int run_agent(const Context& context, UniqueFd supervisor);

}  // namespace lockstep::launch
