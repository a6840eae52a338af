// The types of elements in memory and while they are folded, and the operations on them. Only
// fold_loops.h includes this; it says why the namespace is unnamed.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lockstep/shm/reduce/float16.h"

namespace lockstep::shm {
namespace {

// What an element is in memory, and what it is while it is folded.
template <class T>
struct Plain {
  using Stored = T;
  using Folded = T;
  static Folded load(Stored value) { return value; }
  static Stored store(Folded value) { return value; }
};
struct Half {
  using Stored = std::uint16_t;
  using Folded = float;
  static Folded load(Stored value) { return from_half(value); }
  static Stored store(Folded value) { return to_half(value); }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  using Folded = float;
  static Folded load(Stored value) { return from_bfloat16(value); }
  static Stored store(Folded value) { return to_bfloat16(value); }
};
// Any byte but 0 is true: a peer's memory may hold more than 0 and 1.
struct Bool {
  using Stored = std::uint8_t;
  using Folded = std::uint8_t;
  static Folded load(Stored value) { return value != 0 ? 1 : 0; }
  static Stored store(Folded value) { return value; }
};

// Integers are added and multiplied as unsigned numbers: they wrap around, as torch's do.
template <class T>
auto wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>>(value);
  } else {
    return value;
  }
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(wrapping(a) + wrapping(b));
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(wrapping(a) * wrapping(b));
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;  // a is NaN, or b is NaN or not larger.
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace
}  // namespace lockstep::shm
