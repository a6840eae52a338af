// Makes one batch of single samples: torch.utils.data.default_collate.
#pragma once

#include <vector>

#include "lockstep/data/datasets/dataset.h"

namespace lockstep::data {

// Stacks data and targets, each in memory of its own. Throws UsageError showing both shapes if two
// samples differ, if one has a target and another has none, or if there is none.
Sample default_collate(const std::vector<Sample>& samples);

}  // namespace lockstep::data
