// A schedule's state as the value that torch.optim.lr_scheduler's load_state_dict() accepts, and
// back.
#pragma once

#include "lockstep/checkpoint/value.h"
#include "lockstep/train/optim/lr_scheduler.h"

namespace lockstep {

checkpoint::Value to_value(const optim::SchedulerState& state);

// What no schedule here has, such as text, is left out. Throws IoError if it is no dictionary.
optim::SchedulerState scheduler_from_value(const checkpoint::Value& value);

}  // namespace lockstep
