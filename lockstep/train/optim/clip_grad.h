// Bounds gradients before a step; with the bits of torch.nn.utils.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::optim {

struct ClipOptions {
  double norm_type = 2;  // Infinity: the largest element.
  // Throw UsageError if the norm is infinite or NaN, which waits for the device; otherwise the
  // gradients are multiplied by whatever comes of it.
  bool error_if_nonfinite = false;
};

// Scales the gradients of the parameters, taken as one vector, down to `max_norm` if their norm is
// more. Returns the norm that they had.
// NOLINTNEXTLINE(readability-identifier-naming): PyTorch's name.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const ClipOptions& options = {});

// Each element into [-clip_value, clip_value].
// NOLINTNEXTLINE(readability-identifier-naming): PyTorch's name.
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

}  // namespace lockstep::optim
