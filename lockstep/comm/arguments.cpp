#include "lockstep/comm/arguments.h"

#include <ATen/MemoryOverlap.h>

#include <numeric>

#include "lockstep/comm/shm_tensor.h"

namespace lockstep::comm {

void require_rank(int64_t rank, int ranks, const char* role, const std::string& what) {
  if (rank < 0 || rank >= ranks) {
    throw UsageError(what + ": the " + role + " is " + std::to_string(rank) + ", expected 0 to " +
                     std::to_string(ranks - 1));
  }
}

void require_one_per_rank(const std::vector<at::Tensor>& tensors, int ranks, const at::Tensor& like,
                          const std::string& what) {
  if (tensors.size() != static_cast<std::size_t>(ranks)) {
    throw UsageError(what + ": there are " + std::to_string(tensors.size()) +
                     " tensors, expected one per rank: " + std::to_string(ranks));
  }
  for (const auto& tensor : tensors) {
    require_dense_cpu(tensor, what);
    if (tensor.scalar_type() != like.scalar_type()) {
      throw UsageError(what + ": a tensor is " + c10::toString(tensor.scalar_type()) +
                       ", expected " + c10::toString(like.scalar_type()));
    }
  }
}

void require_as_many(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                     const std::string& what) {
  if (outputs.size() != inputs.size()) {
    throw UsageError(what + ": there are " + std::to_string(outputs.size()) + " outputs for " +
                     std::to_string(inputs.size()) + " inputs");
  }
}

void require_separate_elements(const at::Tensor& tensor, const std::string& what) {
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw UsageError(what +
                     ": several elements of the tensor lie in one place, as after expand(), " +
                     "and cannot have results of their own; pass tensor.contiguous()");
  }
}

std::vector<at::Tensor> parts_of(const at::Tensor& tensor, int ranks, const std::string& what) {
  if (tensor.numel() % ranks != 0) {
    throw UsageError(what + ": the tensor has " + std::to_string(tensor.numel()) +
                     " elements, expected a multiple of the " + std::to_string(ranks) + " ranks");
  }
  return tensor.reshape({-1}).chunk(ranks);
}

std::vector<at::Tensor> split_of(const at::Tensor& tensor, const std::vector<int64_t>& sizes,
                                 int ranks, const std::string& what) {
  const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  if (sizes.empty()) {
    if (rows % ranks != 0) {
      throw UsageError(what + ": the first dimension is " + std::to_string(rows) +
                       ", expected a multiple of the " + std::to_string(ranks) + " ranks");
    }
    return tensor.split_with_sizes(
        std::vector<int64_t>(static_cast<std::size_t>(ranks), rows / ranks));
  }
  if (sizes.size() != static_cast<std::size_t>(ranks) ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != rows) {
    throw UsageError(what + ": the split sizes do not add up to the first dimension, " +
                     std::to_string(rows));
  }
  return tensor.split_with_sizes(sizes);
}

}  // namespace lockstep::comm
