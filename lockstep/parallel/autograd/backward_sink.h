// Notices when a backward pass goes through a module's outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::parallel {

// Replaces the outputs that have a history by clones behind one common node. In backward this node
// calls `begins` first, then passes on to each output the gradient it got. An output that the loss
// does not use passes on an undefined gradient, so that the hooks of the parameters behind it run
// as well. Outputs without a history stay as they are.
void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> begins);

// Calls `passes` in every backward pass that reaches one of the outputs, before the pass goes on.
void when_backward_passes(const std::vector<at::Tensor*>& outputs,
                          const std::function<void()>& passes);

}  // namespace lockstep::parallel
