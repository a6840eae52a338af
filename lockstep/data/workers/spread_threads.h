// Where threads begin to run.
#pragma once

namespace lockstep::data {

// The core that the caller runs on.
int present_core();

// Moves the calling thread, the `number`-th of several that were made on `core`, to a core of its
// own and leaves it free again: the n-th behind `core` of those that it may use, round and round.
// The kernel often puts threads that are made one right after the other on one core and looks at
// them again at its next tick, by which time a first batch could be done. Does nothing where the
// system does not let it. From then on the thread uses the cores that it may use now, also if the
// process gets more of them later.
void spread_thread(int number, int core);

}  // namespace lockstep::data
