// How kernels that take lists of tensors are given them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::device {

// Kernels for lists give 65,536 elements to a block, so with a small network most of a GPU does
// nothing: fused SGD took 14 of the 130 us of a step of an MLP on an H200, and copying its
// gradients into their bucket 12 (2026-11-18). While a graph is recorded on the current stream,
// tensors of a small network are cut into pieces that fill it. Eagerly the host is what is slow,
// and large networks fill it as they are.
class Pieces {
 public:
  explicit Pieces(const std::vector<at::Tensor>& params);
  [[nodiscard]] std::vector<at::Tensor> of(const std::vector<at::Tensor>& tensors) const;
  // The same tensor for each piece of its parameter.
  [[nodiscard]] std::vector<at::Tensor> repeated(const std::vector<at::Tensor>& tensors) const;

 private:
  std::vector<std::int64_t> pieces_;  // How many, for each parameter.
  std::int64_t elements_ = 0;         // In a piece; 0: nothing is cut.
};

}  // namespace lockstep::device
