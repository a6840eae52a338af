// Rank 0 decides which gradients travel together.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/bucket_plan.h"

namespace lockstep::parallel {

// Two broadcasts from rank 0, those of Python's DDP: all parameters in order with the number of
// buckets, then the sizes of the buckets. Returns rank 0's plan. Throws PeerError if what comes is
// no plan for as many parameters.
std::vector<Bucket> agree_on_plan(const Group& group, const std::vector<Bucket>& own,
                                  at::Device device);

}  // namespace lockstep::parallel
