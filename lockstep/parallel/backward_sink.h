// Where a backward pass comes through a module's outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::parallel {

// Clones of those that have a history, behind one common node: in backward it calls `begins` first,
// and passes on to each the gradient that it got. An output that the loss does not use passes an
// undefined one, so that the hooks of the parameters behind it run as well. Others stay as they
// are.
void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> begins);

// Calls `passes` in every backward pass that comes through one of them, before it goes on.
void when_backward_passes(const std::vector<at::Tensor*>& outputs,
                          const std::function<void()>& passes);

}  // namespace lockstep::parallel
