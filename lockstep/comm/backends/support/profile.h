// Makes a backend's work visible in torch's profiler: "lockstep:all_reduce" beside the operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace at {
struct RecordFunction;
}

namespace lockstep::comm {

// Begins an event, named after the kind of work and with the inputs' shapes. Null, at almost no
// cost, if no profiler watches this thread. end() must be called in a thread that has this thread's
// at::ThreadLocalState.
std::shared_ptr<at::RecordFunction> begin_profile(c10d::OpType type,
                                                  std::span<const at::Tensor> inputs);

}  // namespace lockstep::comm
