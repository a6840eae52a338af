// The sum of sparse tensors: gathered whole on every rank, then added in rank order.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::comm {

// What the ranks do together.
struct SparseExchange {
  // outputs[i] receives rank i's input; they have no gaps and may differ in the first dimension.
  std::function<void(const std::vector<at::Tensor>& outputs, const at::Tensor& input)> all_gather;
  // Throws: the ranks' tensors do not fit together.
  std::function<void(const std::string& words)> mismatch;
};

// As Gloo makes it: coalesced, with each rank's values in rank order.
at::Tensor sparse_sum(int ranks, const at::Tensor& tensor, const SparseExchange& exchange);

}  // namespace lockstep::comm
