// A whole training run, from its config to its exit code: what `lockstep train` does on each rank.
#pragma once

#include <map>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/session/make_network.h"

namespace lockstep::train {

// Networks of a program's own, by name. They come before those of lockstep.
using Networks = std::map<std::string, MakeNetwork>;

// All ranks of `world` call it. Rank 0 prints and writes. Returns 0, or the code of a run that was
// stopped by a signal. Throws UsageError, IoError or PeerError.
int train(const TrainConfig& config, const Group& world, const Networks& networks = {});

}  // namespace lockstep::train
