// Tensors as the shared-memory collectives want them: bytes without gaps, of a known dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::comm {

// kOther for a dtype that can be moved but not reduced.
shm::DType shm_dtype(at::ScalarType type);

// Throws UsageError, beginning with `what`, if the dtype cannot be reduced in this way.
shm::Fold shm_fold(const c10d::ReduceOp& op, const at::Tensor& tensor, const std::string& what);

// A tensor's elements contiguously in memory: the tensor's own memory if it is contiguous, else a
// copy. The copy of a GPU tensor is pinned, and copying waits for the GPU.
class Packed {
 public:
  enum class Use { kRead, kWrite, kReadWrite };
  Packed(const at::Tensor& tensor, Use use);

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(packed_.data_ptr()); }
  [[nodiscard]] std::size_t bytes() const { return packed_.nbytes(); }
  // Counts bytes instead of elements if shm does not know the dtype.
  [[nodiscard]] shm::Tensor tensor() const;
  [[nodiscard]] shm::Input input() const { return {data(), bytes()}; }
  [[nodiscard]] shm::Output output() const { return {data(), bytes()}; }

  // Puts the result into the caller's tensor, if it is not there.
  void write_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor packed_;
};

// The list's tensors, one by one.
std::vector<Packed> packed(const std::vector<at::Tensor>& tensors, Packed::Use use);
std::vector<shm::Input> inputs_of(const std::vector<Packed>& tensors);
std::vector<shm::Output> outputs_of(const std::vector<Packed>& tensors);
void write_back(const std::vector<Packed>& tensors);

}  // namespace lockstep::comm
