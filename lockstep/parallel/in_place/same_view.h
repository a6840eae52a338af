// Whether two tensors are the same memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

namespace lockstep::parallel {

// `one` may be undefined, or have no memory.
inline bool shares_storage(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && one.has_storage() && one.is_alias_of(other);
}

// Same elements in the same places, whoever owns them; both are dense tensors.
inline bool is_same_view(const at::Tensor& one, const at::Tensor& other) {
  return one.const_data_ptr() == other.const_data_ptr() && one.sizes() == other.sizes() &&
         one.is_neg() == other.is_neg() && one.is_conj() == other.is_conj() &&
         torch::autograd::utils::obeys_layout_contract(one, other);
}

}  // namespace lockstep::parallel
