// Whether transforms make sense, before a picture is seen.
#pragma once

#include <span>

#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// Throws UsageError naming the transform, its parameter and what is expected.
void check_transforms(std::span<const Transform> transforms);

}  // namespace lockstep::data
