// Collectives of the host on tensors of a GPU: what has to happen before what.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace lockstep::comm {

// The GPU of these tensors; nothing if they are on the CPU, or there are none.
std::optional<at::Device> gpu_of(const std::vector<at::Tensor>& tensors);

// Wraps `run`, which copies from the GPU to the host and back and waits for its copies. Whichever
// thread calls it later, copies are made after what the current stream was given until now, and not
// after what it is given then.
std::function<void()> after_current_stream(at::Device gpu, std::function<void()> run);

}  // namespace lockstep::comm
