// Decides who has started this process, from its environment alone.
#pragma once

#include "lockstep/base/environment.h"

namespace lockstep::cluster {

enum class Starter { kNobody, kVariables, kSlurm, kOpenMpi, kPmi, kPbsdsh };

// In this order: RANK/WORLD_SIZE, Open MPI, a Slurm step, PMI, pbsdsh, nobody.
// PMI comes before a Slurm step whose numbers are those of its proxies, not of its ranks.
// The script or shell of an allocation is no task of srun or pbsdsh.
Starter find_starter(const Environment& environment);

}  // namespace lockstep::cluster
