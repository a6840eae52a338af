#include "lockstep/shm/reduce/reduction.h"

#include <array>

#include "lockstep/shm/reduce/fold_avx2.h"
#include "lockstep/shm/reduce/fold_loops.h"

namespace lockstep::shm {
namespace {

bool is_integer(DType dtype) { return dtype >= DType::kUInt8 && dtype <= DType::kInt64; }
bool is_complex(DType dtype) {
  return dtype == DType::kComplexFloat || dtype == DType::kComplexDouble;
}

}  // namespace

const char* name_of(DType dtype) {
  constexpr std::array kNames{
      "bool",  "uint8",   "int8",     "uint16",  "int16",   "uint32",    "int32",      "uint64",
      "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bytes"};
  const auto index = static_cast<std::size_t>(dtype);
  return index < kNames.size() ? kNames[index] : "an unknown dtype";
}

const char* name_of(ReduceOp op) {
  constexpr std::array kNames{"sum",  "avg", "product", "min",       "max",
                              "band", "bor", "bxor",    "premul_sum"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "an unknown operation";
}

std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 16> kSizes{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 1};
  return kSizes.at(static_cast<std::size_t>(dtype));
}

bool can_reduce(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return dtype != DType::kOther;
    case ReduceOp::kAvg:
      return dtype != DType::kOther && dtype != DType::kBool;
    case ReduceOp::kPremulSum:
      return dtype >= DType::kHalf && dtype <= DType::kDouble;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return dtype != DType::kOther && !is_complex(dtype);
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return dtype == DType::kBool || is_integer(dtype);
  }
  return false;
}

void reduce(const Reduction& reduction, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::size_t count,
            std::span<const double> factors) {
  const Operands operands{.inputs = inputs,
                          .outputs = outputs,
                          .count = count,
                          .factors = factors,
                          .divisor = reduction.op == ReduceOp::kAvg ? inputs.size() : 1};
  static const bool wide = can_fold_avx2();
  wide ? fold_avx2(reduction, operands) : fold_any(reduction, operands);
}

}  // namespace lockstep::shm
