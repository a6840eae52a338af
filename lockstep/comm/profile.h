// Shows what a backend does to torch's profiler: "lockstep:all_reduce" beside the operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace at {
struct RecordFunction;
}

namespace lockstep::comm {

// An event that has begun, named after the kind of work and with the inputs' shapes; null, at next
// to no cost, unless a profiler looks at this thread. It ends by end() in a thread that has this
// one's at::ThreadLocalState.
std::shared_ptr<at::RecordFunction> begin_profile(c10d::OpType type,
                                                  std::span<const at::Tensor> inputs);

}  // namespace lockstep::comm
