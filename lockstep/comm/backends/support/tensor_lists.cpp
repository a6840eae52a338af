#include "lockstep/comm/backends/support/tensor_lists.h"

#include <ATen/ops/cat.h>

#include <algorithm>

namespace lockstep::comm {

at::Tensor without_gaps(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.resolve_conj().resolve_neg().contiguous()
                                         : tensor;
}

std::vector<at::Tensor> without_gaps(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> dense;
  dense.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    dense.push_back(without_gaps(tensor));
  }
  return dense;
}

at::Tensor own_copy(const at::Tensor& tensor) {
  const at::Tensor dense = without_gaps(tensor);
  return dense.is_same(tensor) ? dense.clone() : dense;
}

void put_back(const std::vector<at::Tensor>& buffers, const std::vector<at::Tensor>& tensors) {
  if (const auto copy = copy_back(buffers, tensors)) {
    copy();
  }
}

std::function<void()> copy_back(const std::vector<at::Tensor>& buffers,
                                const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!buffers[i].is_same(tensors[i])) {
      pairs.emplace_back(tensors[i], buffers[i]);
    }
  }
  if (pairs.empty()) {
    return nullptr;
  }
  return [pairs] {
    for (const auto& [tensor, buffer] : pairs) {
      tensor.copy_(buffer);
    }
  };
}

void divide_in_place(const at::Tensor& sum, int ranks) {
  if (at::isIntegralType(sum.scalar_type(), /*includeBool=*/true)) {
    sum.div_(ranks, "trunc");
  } else {
    sum.div_(ranks);
  }
}

std::size_t bytes_of(const std::vector<at::Tensor>& tensors, std::size_t sparse) {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) {
    bytes += tensor.layout() == at::kStrided ? tensor.nbytes() : sparse;
  }
  return bytes;
}

c10::intrusive_ptr<c10::ivalue::Future> new_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

bool same_shapes(const std::vector<at::Tensor>& tensors, const at::Tensor& like) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& tensor) { return tensor.sizes() == like.sizes(); });
}

std::vector<std::int64_t> element_counts(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> counts;
  counts.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    counts.push_back(tensor.numel());
  }
  return counts;
}

at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  flat.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    flat.push_back(tensor.reshape({-1}));
  }
  return at::cat(flat);
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t at = 0;
  for (const auto& tensor : tensors) {
    tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace lockstep::comm
