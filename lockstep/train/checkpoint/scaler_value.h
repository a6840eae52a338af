// A GradScaler's state as the value that torch.amp.GradScaler's load_state_dict() accepts, and
// back.
#pragma once

#include <optional>

#include "lockstep/checkpoint/value.h"
#include "lockstep/train/amp/grad_scaler.h"

namespace lockstep {

// A disabled scaler gives an empty dictionary, as in Python.
checkpoint::Value to_value(const std::optional<amp::GradScalerState>& state);

// Nothing of an empty dictionary. Throws IoError that names what is missing or of another kind.
std::optional<amp::GradScalerState> scaler_from_value(const checkpoint::Value& value);

}  // namespace lockstep
