// An optimizer's state as the value that torch.optim's load_state_dict() accepts, and back.
#pragma once

#include <functional>

#include "lockstep/checkpoint/value.h"
#include "lockstep/train/checkpoint/map_location.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep {

checkpoint::Value to_value(const optim::OptimizerState& state,
                           const std::function<checkpoint::Tensor(const at::Tensor&)>& take);

// Options that are neither numbers nor flags, such as names, are left out. Throws IoError that says
// what is not as torch.optim writes it.
optim::OptimizerState optimizer_from_value(const checkpoint::Value& value,
                                           const MapLocation& map_location);

}  // namespace lockstep
