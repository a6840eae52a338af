// Lists of tensors on their way through a backend: packed, flattened, and put back in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::comm {

// Gloo reads and writes memory as if there were no gaps in it, and says nothing: what is not
// contiguous travels as a copy, as does what is conjugated or negated in name only. A sparse tensor
// has no strides to look at.
at::Tensor without_gaps(const at::Tensor& tensor);
std::vector<at::Tensor> without_gaps(const std::vector<at::Tensor>& tensors);

// A copy in any case.
at::Tensor own_copy(const at::Tensor& tensor);
// Copies each buffer into its tensor where they are not the same.
void put_back(const std::vector<at::Tensor>& buffers, const std::vector<at::Tensor>& tensors);
// The same later; null if there is nothing to copy.
std::function<void()> copy_back(const std::vector<at::Tensor>& buffers,
                                const std::vector<at::Tensor>& tensors);

// A sum becomes an average. Integers are divided as NCCL divides them: towards zero.
void divide_in_place(const at::Tensor& sum, int ranks);

bool same_shapes(const std::vector<at::Tensor>& tensors, const at::Tensor& like);
std::vector<std::int64_t> element_counts(const std::vector<at::Tensor>& tensors);

// All elements of all tensors in one dimension.
at::Tensor flattened(const std::vector<at::Tensor>& tensors);
// The inverse; `flat` may be longer.
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::comm
