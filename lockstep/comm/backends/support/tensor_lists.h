// Lists of tensors on their way through a backend: packed, flattened, and put back in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <ATen/core/ivalue.h>
#include <functional>
#include <vector>

namespace lockstep::comm {

// Gloo silently reads and writes a tensor as if it had no gaps. So a tensor that is not contiguous
// is copied, as is one whose conjugate or negative bit is set. Sparse tensors are returned as they
// are.
at::Tensor without_gaps(const at::Tensor& tensor);
std::vector<at::Tensor> without_gaps(const std::vector<at::Tensor>& tensors);

// Always copies.
at::Tensor own_copy(const at::Tensor& tensor);
// Copies each buffer into its tensor, unless they are the same.
void put_back(const std::vector<at::Tensor>& buffers, const std::vector<at::Tensor>& tensors);
// A function that does this later; null if there is nothing to copy.
std::function<void()> copy_back(const std::vector<at::Tensor>& buffers,
                                const std::vector<at::Tensor>& tensors);

// Turns a sum into an average. Integers are rounded towards zero, as by NCCL.
void divide_in_place(const at::Tensor& sum, int ranks);

// `sparse` counts for each tensor that is not dense.
std::size_t bytes_of(const std::vector<at::Tensor>& tensors, std::size_t sparse);

// The future of a work, whose value is a list of tensors.
c10::intrusive_ptr<c10::ivalue::Future> new_future();

bool same_shapes(const std::vector<at::Tensor>& tensors, const at::Tensor& like);
std::vector<std::int64_t> element_counts(const std::vector<at::Tensor>& tensors);

// All elements of all tensors in one dimension.
at::Tensor flattened(const std::vector<at::Tensor>& tensors);
// The inverse; `flat` may be longer.
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

}  // namespace lockstep::comm
