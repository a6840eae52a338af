// Orders collectives that the host runs on tensors of a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace lockstep::comm {

// The GPU of these tensors; nothing if they are on the CPU, or there are none.
std::optional<at::Device> gpu_of(const std::vector<at::Tensor>& tensors);

// Wraps `run`, which copies from the GPU to the host and back and waits for its copies. Whichever
// thread calls the result later, the copies are ordered after the work that the current stream has
// now, and not after work that it gets later.
std::function<void()> after_current_stream(at::Device gpu, std::function<void()> run);

}  // namespace lockstep::comm
