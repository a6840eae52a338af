// Whether tensors lie in the same memory, element by element: views that are interleaved, such as
// the columns of a matrix, do not. What is not strided (a sparse tensor) is not looked into.
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::comm {

// Whether two elements of a tensor lie in one place, as after expand().
bool overlaps_itself(const at::Tensor& tensor);

// Whether an element of one tensor lies where one of the other does.
bool overlap(const at::Tensor& one, const at::Tensor& other);

// Whether two tensors are the same elements in the same order.
bool coincide(const at::Tensor& one, const at::Tensor& other);

}  // namespace lockstep::comm
