// Tensors in MPI's words: datatypes, operations and counts; private to comm.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "lockstep/comm/backends/mpi/library.h"

namespace lockstep::comm {

// The datatype of an element that is only moved: MPI is told only its size, so every dtype works.
MPI_Datatype mpi_unit(const MpiLibrary& mpi, const at::Tensor& tensor);

// MPI counts in int. Throws UsageError, beginning with `what`, for more elements than that.
int mpi_count(std::int64_t elements, const std::string& what);

// Where each rank's part lies in one buffer; MPI reads it until the call is done.
struct MpiSplit {
  std::vector<int> counts;
  std::vector<int> offsets;
};
MpiSplit mpi_split(const std::vector<at::Tensor>& parts, const std::string& what);

// A reduction in MPI's terms.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
  at::ScalarType travels_as;  // MPI has no 16-bit floats: they are summed as 32-bit ones.
  bool average = false;       // MPI has no averages: a sum, to be divided afterwards.
};
// `op` is defined for the tensor's dtype. Throws UsageError, beginning with `what`, for PREMUL_SUM.
MpiReduction mpi_reduction(const MpiLibrary& mpi, const c10d::ReduceOp& op,
                           const at::Tensor& tensor, const std::string& what);

// The elements contiguously, in `dtype`: the tensor itself if it is already like that.
at::Tensor travelling(const at::Tensor& tensor, at::ScalarType dtype);

}  // namespace lockstep::comm
