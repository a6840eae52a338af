// All ranks must have the same model; this finds the first difference and tells every rank.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// Issues the collectives by which Python's DDP verifies a model (an all_gather of the number of
// parameters and a broadcast of rank 0's shapes), and compares names, shapes and dtypes through the
// store under `key`, those of buffers too, where a Python rank leaves nothing. Throws UsageError,
// the same on all of our ranks, that shows the first difference on both sides.
void require_same_model(const Group& group, const std::vector<Parameter>& parameters,
                        const NamedTensors& buffers, const std::string& key);

// "parameter layer1.0.conv1.weight Float [64, 64, 3, 3]", one line each.
std::string description_of(const std::vector<Parameter>& parameters, const NamedTensors& buffers);

// Where two descriptions differ first, seen from the rank `second`; empty if they do not.
std::string difference(const std::string& first, const std::string& second, int first_rank,
                       int second_rank);

}  // namespace lockstep::parallel
