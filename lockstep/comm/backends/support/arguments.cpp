#include "lockstep/comm/backends/support/arguments.h"

#include <numeric>

#include "lockstep/comm/backends/support/overlap.h"
#include "lockstep/comm/backends/support/tensor_bytes.h"

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
    require_dense(tensor, what);
    if (tensor.device() != like.device()) {
      throw UsageError(what + ": a tensor is on " + tensor.device().str() + ", expected " +
                       like.device().str());
    }
    if (tensor.scalar_type() != like.scalar_type()) {
      throw UsageError(what + ": a tensor is " + c10::toString(tensor.scalar_type()) +
                       ", expected " + c10::toString(like.scalar_type()));
    }
  }
}

void require_as_many(std::size_t outputs, std::size_t inputs, const char* of_what,
                     const std::string& what) {
  if (outputs != inputs) {
    throw UsageError(what + ": there are " + std::to_string(outputs) + " outputs for " +
                     std::to_string(inputs) + " " + of_what);
  }
}

void require_dense(const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) {
    throw UsageError(what + ": the tensor is undefined");
  }
  if (tensor.layout() != at::kStrided || !(tensor.is_cpu() || tensor.is_cuda())) {
    throw UsageError(what + ": the tensor is " + c10::str(tensor.layout()) + " on " +
                     tensor.device().str() + ", expected a strided one on the CPU or a GPU");
  }
}

void require_dense_cpu(const at::Tensor& tensor, const std::string& what) {
  require_dense(tensor, what);
  if (!tensor.is_cpu()) {
    throw UsageError(what + ": the tensor is on " + tensor.device().str() +
                     ", expected one on cpu: over shared memory there are all_reduce, reduce, "
                     "broadcast and all_gather for a GPU's");
  }
}

void require_reducible(const c10d::ReduceOp& op, const at::Tensor& tensor,
                       const std::string& what) {
  (void)shm_fold(op, tensor, what);
}

void Access::read(const at::Tensor& input, const at::Tensor& own) {
  if (!coincide(input, own)) {
    read(input);
  }
}

void Access::read(const std::vector<at::Tensor>& inputs, int rank, const at::Tensor& own) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    i == static_cast<std::size_t>(rank) ? read(inputs[i], own) : read(inputs[i]);
  }
}

void Access::gather(const at::Tensor& output, const at::Tensor& input, int rank) {
  writes.push_back(output);
  const auto* own = static_cast<const std::byte*>(output.const_data_ptr()) +
                    static_cast<std::size_t>(rank) * input.nbytes();
  if (!output.is_contiguous() || !input.is_contiguous() || input.const_data_ptr() != own) {
    read(input);
  }
}

void require_no_overlap(const Access& access, const std::string& what) {
  const auto& writes = access.writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (overlaps_itself(writes[i])) {
      throw UsageError(what +
                       ": several elements of the tensor lie in one place, as after expand(), " +
                       "and cannot have results of their own; pass a copy of it");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (overlap(writes[i], writes[k])) {
        throw UsageError(what + ": outputs " + std::to_string(k) + " and " + std::to_string(i) +
                         " share memory and cannot both have results; pass tensors of their own");
      }
    }
  }
  for (const auto& read : access.reads) {
    for (const auto& write : writes) {
      if (overlap(read, write)) {
        throw UsageError(what +
                         ": an input shares memory with an output, which may be written before the "
                         "input is read; pass a copy of the input");
      }
    }
  }
}

void require_separate_elements(const at::Tensor& tensor, const std::string& what) {
  require_no_overlap({.writes = {tensor}}, what);
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
