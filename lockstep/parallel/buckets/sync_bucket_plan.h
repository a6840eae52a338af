// Rank 0 decides which gradients travel together.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/buckets/bucket_plan.h"

namespace lockstep::parallel {

// Issues two broadcasts from rank 0, those of Python's DDP: all parameters in order with the number
// of buckets, then the sizes of the buckets. Returns rank 0's plan. Throws PeerError if the
// received data is not a plan for this many parameters.
std::vector<Bucket> sync_bucket_plan(const Group& group, const std::vector<Bucket>& own,
                                     at::Device device);

}  // namespace lockstep::parallel
