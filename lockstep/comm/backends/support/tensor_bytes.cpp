#include "lockstep/comm/backends/support/tensor_bytes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

shm::ReduceOp shm_op(c10d::ReduceOp::RedOpType op, const std::string& what) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return shm::ReduceOp::kSum;
    case c10d::ReduceOp::AVG:
      return shm::ReduceOp::kAvg;
    case c10d::ReduceOp::PRODUCT:
      return shm::ReduceOp::kProduct;
    case c10d::ReduceOp::MIN:
      return shm::ReduceOp::kMin;
    case c10d::ReduceOp::MAX:
      return shm::ReduceOp::kMax;
    case c10d::ReduceOp::BAND:
      return shm::ReduceOp::kBand;
    case c10d::ReduceOp::BOR:
      return shm::ReduceOp::kBor;
    case c10d::ReduceOp::BXOR:
      return shm::ReduceOp::kBxor;
    case c10d::ReduceOp::PREMUL_SUM:
      return shm::ReduceOp::kPremulSum;
    default:
      throw UsageError(what + ": the reduce operation is none of c10d's");
  }
}

double factor_of(const c10d::ReduceOp& op, const std::string& what) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) {
    throw UsageError(what + ": premul_sum has no factor");
  }
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                             : supplement->double_factor;
}

bool lies_packed(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

shm::DType shm_dtype(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return shm::DType::kBool;
    case at::kByte:
      return shm::DType::kUInt8;
    case at::kChar:
      return shm::DType::kInt8;
    case at::kUInt16:
      return shm::DType::kUInt16;
    case at::kShort:
      return shm::DType::kInt16;
    case at::kUInt32:
      return shm::DType::kUInt32;
    case at::kInt:
      return shm::DType::kInt32;
    case at::kUInt64:
      return shm::DType::kUInt64;
    case at::kLong:
      return shm::DType::kInt64;
    case at::kHalf:
      return shm::DType::kHalf;
    case at::kBFloat16:
      return shm::DType::kBFloat16;
    case at::kFloat:
      return shm::DType::kFloat;
    case at::kDouble:
      return shm::DType::kDouble;
    case at::kComplexFloat:
      return shm::DType::kComplexFloat;
    case at::kComplexDouble:
      return shm::DType::kComplexDouble;
    default:
      return shm::DType::kOther;
  }
}

shm::Fold shm_fold(const c10d::ReduceOp& op, const at::Tensor& tensor, const std::string& what) {
  shm::Fold fold{.reduction = {shm_dtype(tensor.scalar_type()), shm_op(op, what)}};
  if (!shm::can_reduce(fold.reduction.dtype, fold.reduction.op)) {
    throw UsageError(what + ": " + shm::name_of(fold.reduction.op) + " is not defined for " +
                     c10::toString(tensor.scalar_type()));
  }
  if (fold.reduction.op == shm::ReduceOp::kPremulSum) {
    fold.factor = factor_of(op, what);
  }
  return fold;
}

Packed::Packed(const at::Tensor& tensor, Use use) : tensor_(tensor), packed_(tensor) {
  if (lies_packed(tensor)) {
    return;
  }
  const at::NoGradGuard no_grad;
  if (!tensor.is_cpu()) {
    packed_ =
        at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
    if (use != Use::kWrite) {
      packed_.copy_(tensor);
    }
    return;
  }
  packed_ = use == Use::kWrite
                ? at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous)
                : tensor.resolve_conj().resolve_neg().contiguous();
}

shm::Tensor Packed::tensor() const {
  const bool known = shm_dtype(packed_.scalar_type()) != shm::DType::kOther;
  return {data(), known ? static_cast<std::size_t>(packed_.numel()) : bytes()};
}

void Packed::write_back() const {
  if (!packed_.is_same(tensor_)) {
    const at::NoGradGuard no_grad;
    tensor_.copy_(packed_);
  }
}

std::vector<Packed> packed(const std::vector<at::Tensor>& tensors, Packed::Use use) {
  std::vector<Packed> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    result.emplace_back(tensor, use);
  }
  return result;
}

std::vector<shm::Input> inputs_of(const std::vector<Packed>& tensors) {
  std::vector<shm::Input> inputs;
  inputs.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    inputs.push_back(tensor.input());
  }
  return inputs;
}

std::vector<shm::Output> outputs_of(const std::vector<Packed>& tensors) {
  std::vector<shm::Output> outputs;
  outputs.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    outputs.push_back(tensor.output());
  }
  return outputs;
}

void write_back(const std::vector<Packed>& tensors) {
  for (const auto& tensor : tensors) {
    tensor.write_back();
  }
}

}  // namespace lockstep::comm
