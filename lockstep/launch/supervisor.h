// The launcher as the user sees it: passes signals on, waits, and cleans up behind the agent.
//
// Two processes watch each other, so that killing either leaves nothing behind.
#pragma once

#include "lockstep/launch/context.h"

namespace lockstep::launch {

// Forks the agent, which does the work in a session of its own, and returns its exit code. The
// process must have no threads but those that libraries start when they are loaded.
int supervise(const Context& context);

}  // namespace lockstep::launch
