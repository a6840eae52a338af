// Element types, operations on them, and the loop that folds the ranks' values into one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::shm {

enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kHalf,
  kBFloat16,
  kFloat,
  kDouble,
  kComplexFloat,
  kComplexDouble,
  kOther,  // Can be moved, not reduced.
};

enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,  // The sum, then divided by the number of ranks; integers towards zero.
  kProduct,
  kMin,  // NaN if any value is NaN, as torch.min.
  kMax,
  kBand,
  kBor,
  kBxor,
  kPremulSum,  // Each rank's values times that rank's factor, then the sum.
};

const char* name_of(DType dtype);
const char* name_of(ReduceOp op);

// Bytes of one element; 1 for kOther.
std::size_t size_of(DType dtype);

// False for bit operations on floating-point numbers, min and max of complex numbers, averages of
// bool, and kPremulSum of anything but real floating-point numbers.
bool can_reduce(DType dtype, ReduceOp op);

struct Reduction {
  DType dtype = DType::kFloat;
  ReduceOp op = ReduceOp::kSum;
};

// For each element: inputs[0], then op with inputs[1], inputs[2], ... in that order, written to
// every output. An output may be one of the inputs; any other overlap is not allowed. half and
// bfloat16 are folded in float and rounded once. For kPremulSum there is one factor per input.
// `can_reduce` must hold, and pointers be aligned to their element.
void reduce(const Reduction& reduction, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::size_t count,
            std::span<const double> factors = {});

}  // namespace lockstep::shm
