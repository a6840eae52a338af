// Whether tensors share memory, element by element: interleaved views, such as the columns of a
// matrix, do not. Tensors that are not strided (sparse ones) are not examined.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::comm {

// Whether two elements of a tensor are the same memory, as after expand().
bool overlaps_itself(const at::Tensor& tensor);

// Whether an element of one tensor shares memory with an element of the other.
bool overlap(const at::Tensor& one, const at::Tensor& other);

// Whether two tensors are the same elements in the same order.
bool coincide(const at::Tensor& one, const at::Tensor& other);

}  // namespace lockstep::comm
