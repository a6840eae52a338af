#include "lockstep/comm/backends/mpi/types.h"

#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

const char* datatype_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:  // 0 or 1 in a byte.
    case at::kByte:
      return "ompi_mpi_uint8_t";
    case at::kChar:
      return "ompi_mpi_int8_t";
    case at::kUInt16:
      return "ompi_mpi_uint16_t";
    case at::kShort:
      return "ompi_mpi_int16_t";
    case at::kUInt32:
      return "ompi_mpi_uint32_t";
    case at::kInt:
      return "ompi_mpi_int32_t";
    case at::kUInt64:
      return "ompi_mpi_uint64_t";
    case at::kLong:
      return "ompi_mpi_int64_t";
    case at::kDouble:
      return "ompi_mpi_double";
    case at::kComplexFloat:
      return "ompi_mpi_c_float_complex";
    case at::kComplexDouble:
      return "ompi_mpi_c_double_complex";
    default:
      return "ompi_mpi_float";
  }
}

// The sum of truth values is their "or", as in shared memory and NCCL: a byte of 2 is no bool.
const char* operation_of(const c10d::ReduceOp& op, bool truth) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::PRODUCT:
      return truth ? "ompi_mpi_op_min" : "ompi_mpi_op_prod";
    case c10d::ReduceOp::MIN:
      return "ompi_mpi_op_min";
    case c10d::ReduceOp::MAX:
      return "ompi_mpi_op_max";
    case c10d::ReduceOp::BAND:
      return "ompi_mpi_op_band";
    case c10d::ReduceOp::BOR:
      return "ompi_mpi_op_bor";
    case c10d::ReduceOp::BXOR:
      return "ompi_mpi_op_bxor";
    default:
      return truth ? "ompi_mpi_op_max" : "ompi_mpi_op_sum";
  }
}

}  // namespace

MPI_Datatype mpi_unit(const MpiLibrary& mpi, const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return mpi.object<MPI_Datatype>("ompi_mpi_int8_t");
    case 2:
      return mpi.object<MPI_Datatype>("ompi_mpi_int16_t");
    case 4:
      return mpi.object<MPI_Datatype>("ompi_mpi_int32_t");
    case 8:
      return mpi.object<MPI_Datatype>("ompi_mpi_int64_t");
    default:  // The largest of torch's.
      return mpi.object<MPI_Datatype>("ompi_mpi_c_double_complex");
  }
}

int mpi_count(std::int64_t elements, const std::string& what) {
  if (elements > std::numeric_limits<int>::max()) {
    throw UsageError(what + ": there are " + std::to_string(elements) +
                     " elements, MPI counts up to " +
                     std::to_string(std::numeric_limits<int>::max()) + "; split the tensor");
  }
  return static_cast<int>(elements);
}

MpiSplit mpi_split(const std::vector<at::Tensor>& parts, const std::string& what) {
  MpiSplit split;
  std::int64_t before = 0;
  for (const auto& part : parts) {
    split.counts.push_back(mpi_count(part.numel(), what));
    split.offsets.push_back(mpi_count(before, what));
    before += part.numel();
  }
  return split;
}

MpiReduction mpi_reduction(const MpiLibrary& mpi, const c10d::ReduceOp& op,
                           const at::Tensor& tensor, const std::string& what) {
  if (op == c10d::ReduceOp::PREMUL_SUM) {
    throw UsageError(what + ": MPI has no premul_sum; multiply first, and ask for a sum");
  }
  const auto dtype = tensor.scalar_type();
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  return {.type = mpi.object<MPI_Datatype>(datatype_of(dtype)),
          .op = mpi.object<MPI_Op>(operation_of(op, dtype == at::kBool)),
          .travels_as = narrow ? at::kFloat : dtype,
          .average = op == c10d::ReduceOp::AVG};
}

at::Tensor travelling(const at::Tensor& tensor, at::ScalarType dtype) {
  return tensor.resolve_conj().resolve_neg().to(dtype).contiguous();
}

}  // namespace lockstep::comm
