// The program `lockstep train`, for networks of your own:
//
//   int main(int argc, char** argv) {
//     return lockstep::train::main(argc, argv, {{"mynet", make_mynet}});
//   }
//
// `./program DATA --model mynet --nproc 2` trains it, with all of the flags, files and resuming of
// `lockstep train`.
#pragma once

#include "lockstep/train/session/session.h"

namespace lockstep::train {

// Returns the exit code: 0, 1 after a failure, 2 for wrong flags, 130, 143 or 75 if a signal
// stopped the run. Prints errors. Call it first in main(): it may start ranks.
int main(int argc, char** argv, const Networks& networks = {});

}  // namespace lockstep::train
