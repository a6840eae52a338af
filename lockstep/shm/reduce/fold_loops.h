// The loops that fold the ranks' values. Every file that includes this gets its own copy in an
// unnamed namespace: each file is compiled for different processors, and the linker must not
// replace a function of one file by that of another.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <type_traits>

#include "lockstep/shm/reduce/fold_avx2.h"
#include "lockstep/shm/reduce/fold_elements.h"

namespace lockstep::shm {
namespace {

template <class T>
T divided(T value, std::size_t divisor) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(value / divisor);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / static_cast<std::int64_t>(divisor));
  } else {
    return value / static_cast<T>(divisor);
  }
}

template <class Element>
void store_block(const typename Element::Folded* from, std::byte* to, std::size_t count) {
  using Stored = typename Element::Stored;
  if constexpr (std::is_same_v<Stored, typename Element::Folded>) {
    std::memcpy(to, from, count * sizeof(Stored));
  } else {
    auto* out = reinterpret_cast<Stored*>(to);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = Element::store(from[i]);
    }
  }
}

// Two inputs, and one or two outputs, which may be the inputs: every value is read and written
// once. No element depends on another; the compiler cannot know this and is told.
template <class Element, class Op, class Load>
void fold_two(const Operands& operands, Op op, Load load) {
  using Stored = typename Element::Stored;
  const auto* a = reinterpret_cast<const Stored*>(operands.inputs[0]);
  const auto* b = reinterpret_cast<const Stored*>(operands.inputs[1]);
  auto* x = reinterpret_cast<Stored*>(operands.outputs.front());
  auto* y = reinterpret_cast<Stored*>(operands.outputs.back());
  const auto ready_a = load(0);
  const auto ready_b = load(1);
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < operands.count; ++i) {
    const Stored value = Element::store(op(ready_a(a[i]), ready_b(b[i])));
    x[i] = value;
    y[i] = value;
  }
}

// Any number of inputs and outputs, block by block through a buffer that stays in the first-level
// cache. It overlaps with nothing, so every loop becomes vector code.
template <class Element, class Op, class Load>
void fold_many(const Operands& operands, Op op, Load load) {
  using Folded = typename Element::Folded;
  using Stored = typename Element::Stored;
  constexpr std::size_t kBlock = 4096 / sizeof(Folded);
  alignas(64) std::array<Folded, kBlock> sum;

  for (std::size_t at = 0; at < operands.count; at += kBlock) {
    const std::size_t n = std::min(kBlock, operands.count - at);
    const std::size_t offset = at * sizeof(Stored);
    for (std::size_t k = 0; k < operands.inputs.size(); ++k) {
      const auto* input = reinterpret_cast<const Stored*>(operands.inputs[k] + offset);
      const auto ready = load(k);
      if (k == 0) {
        for (std::size_t i = 0; i < n; ++i) {
          sum[i] = ready(input[i]);
        }
      } else {
        for (std::size_t i = 0; i < n; ++i) {
          sum[i] = op(sum[i], ready(input[i]));
        }
      }
    }
    if (operands.divisor > 1) {
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] = divided(sum[i], operands.divisor);
      }
    }
    for (std::byte* output : operands.outputs) {
      store_block<Element>(sum.data(), output + offset, n);
    }
  }
}

// `load` makes the k-th input's stored value ready to be folded.
template <class Element, class Op, class Load>
void fold(const Operands& operands, Op op, Load load) {
  using Folded = typename Element::Folded;
  if (operands.inputs.size() != 2 || operands.outputs.size() > 2) {
    fold_many<Element>(operands, op, load);
  } else if (operands.divisor == 1) {
    fold_two<Element>(operands, op, load);
  } else {
    const auto average = [op](Folded a, Folded b) { return divided(op(a, b), 2); };
    fold_two<Element>(operands, average, load);
  }
}

template <class Element, class Op>
void fold(const Operands& operands, Op op) {
  fold<Element>(operands, op, [](std::size_t) {
    return [](typename Element::Stored value) { return Element::load(value); };
  });
}

template <class Element>
void fold_scaled(const Operands& operands) {
  using Folded = typename Element::Folded;
  fold<Element>(operands, Add{}, [&](std::size_t k) {
    return [factor = static_cast<Folded>(operands.factors[k])](typename Element::Stored value) {
      return Element::load(value) * factor;
    };
  });
}

template <class Element>
void fold_numbers(ReduceOp op, const Operands& operands) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return fold<Element>(operands, Add{});
    case ReduceOp::kProduct:
      return fold<Element>(operands, Multiply{});
    case ReduceOp::kMin:
      return fold<Element>(operands, Smaller{});
    case ReduceOp::kMax:
      return fold<Element>(operands, Larger{});
    default:
      break;
  }
  if constexpr (std::is_integral_v<typename Element::Folded>) {
    switch (op) {
      case ReduceOp::kBand:
        return fold<Element>(operands, And{});
      case ReduceOp::kBor:
        return fold<Element>(operands, Or{});
      case ReduceOp::kBxor:
        return fold<Element>(operands, Xor{});
      default:
        break;
    }
  } else if (op == ReduceOp::kPremulSum) {
    fold_scaled<Element>(operands);
  }
}

// A sum that is not 0 is true, so that adding is "or" and multiplying is "and".
void fold_bool(ReduceOp op, const Operands& operands) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor:
      return fold<Bool>(operands, Or{});
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBand:
      return fold<Bool>(operands, And{});
    default:
      return fold<Bool>(operands, Xor{});
  }
}

// Adding and dividing by a real number treat both parts alike.
template <class T>
void fold_complex(ReduceOp op, Operands operands) {
  if (op == ReduceOp::kProduct) {
    return fold<Plain<std::complex<T>>>(operands, [](std::complex<T> a, std::complex<T> b) {
      return std::complex<T>(a.real() * b.real() - a.imag() * b.imag(),
                             a.real() * b.imag() + a.imag() * b.real());
    });
  }
  operands.count *= 2;
  fold_numbers<Plain<T>>(op, operands);
}

void fold_any(const Reduction& reduction, const Operands& operands) {
  const ReduceOp op = reduction.op;
  switch (reduction.dtype) {
    case DType::kBool:
      return fold_bool(op, operands);
    case DType::kUInt8:
      return fold_numbers<Plain<std::uint8_t>>(op, operands);
    case DType::kInt8:
      return fold_numbers<Plain<std::int8_t>>(op, operands);
    case DType::kUInt16:
      return fold_numbers<Plain<std::uint16_t>>(op, operands);
    case DType::kInt16:
      return fold_numbers<Plain<std::int16_t>>(op, operands);
    case DType::kUInt32:
      return fold_numbers<Plain<std::uint32_t>>(op, operands);
    case DType::kInt32:
      return fold_numbers<Plain<std::int32_t>>(op, operands);
    case DType::kUInt64:
      return fold_numbers<Plain<std::uint64_t>>(op, operands);
    case DType::kInt64:
      return fold_numbers<Plain<std::int64_t>>(op, operands);
    case DType::kHalf:
      return fold_numbers<Half>(op, operands);
    case DType::kBFloat16:
      return fold_numbers<BFloat16>(op, operands);
    case DType::kFloat:
      return fold_numbers<Plain<float>>(op, operands);
    case DType::kDouble:
      return fold_numbers<Plain<double>>(op, operands);
    case DType::kComplexFloat:
      return fold_complex<float>(op, operands);
    case DType::kComplexDouble:
      return fold_complex<double>(op, operands);
    case DType::kOther:
      return;
  }
}

}  // namespace
}  // namespace lockstep::shm
