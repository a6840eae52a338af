// Tensors as bytes on their way between hosts.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep::comm {

// Gloo does not know every type. The tensor has no gaps; one of a single element may have any
// stride all the same, which view(dtype) would refuse.
inline at::Tensor as_bytes(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte);
}

inline std::vector<at::Tensor> as_bytes(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  all.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    all.push_back(as_bytes(tensor));
  }
  return all;
}

inline at::Tensor empty_bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

// c10d's options of an operation.
template <class Options>
Options with_timeout(Deadline deadline) {
  Options options;
  options.timeout = deadline.as_timeout();
  return options;
}

}  // namespace lockstep::comm
