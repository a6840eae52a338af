// All ranks must have the same model; this finds the first difference and tells every rank.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// Issues the collectives by which Python's DDP verifies a model (an all_gather of the number of
// parameters and a broadcast of rank 0's shapes), and compares names, shapes and dtypes through the
// store under `key`, also of buffers. A Python rank leaves nothing there. Throws the same
// UsageError on all of our ranks, which shows the first difference on both sides.
void require_same_model(const Group& group, const std::vector<Parameter>& parameters,
                        const NamedTensors& buffers, const std::string& key);

// Where a rank leaves its description in the store.
std::string model_key(const std::string& key, int rank);

// "parameter layer1.0.conv1.weight Float [64, 64, 3, 3]", one line each.
std::string description_of(const std::vector<Parameter>& parameters, const NamedTensors& buffers);

// The first difference between two descriptions, with the ranks' numbers; empty if there is none.
std::string difference(const std::string& first, const std::string& second, int first_rank,
                       int second_rank);

}  // namespace lockstep::parallel
