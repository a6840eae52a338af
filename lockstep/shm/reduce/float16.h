// half and bfloat16 to float and back, rounding to nearest even as torch does; written without
// branches so that loops over them become vector code on every machine. These functions have
// internal linkage: see fold_loops.h.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::shm {

static inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

static inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? 0x7fc0U : rounded);
}

// Multiplying by a power of two moves the exponent and keeps infinity and NaN. Subnormal numbers
// are made by a subtraction.
static inline float from_half(std::uint16_t half) {
  const auto word = static_cast<std::uint32_t>(half) << 16;
  const auto sign = word & 0x80000000U;
  const auto magnitude = word + word;
  const float normal = std::bit_cast<float>((magnitude >> 4) + (0xe0U << 23)) * 0x1.0p-112F;
  const float subnormal = std::bit_cast<float>((magnitude >> 17) | (126U << 23)) - 0.5F;
  const bool small = magnitude < (1U << 27);
  return std::bit_cast<float>(sign | (small ? std::bit_cast<std::uint32_t>(subnormal)
                                            : std::bit_cast<std::uint32_t>(normal)));
}

// Adding a power of two pushes the bits that half cannot hold out of the float, which rounds them.
static inline std::uint16_t to_half(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto doubled = word + word;
  const auto magnitude = std::bit_cast<float>(word & 0x7fffffffU);
  const float scaled = (magnitude * 0x1.0p+112F) * 0x1.0p-110F;
  const auto exponent = doubled & 0xff000000U;
  const auto bias = exponent < 0x71000000U ? 0x71000000U : exponent;
  const auto bits =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>((bias >> 1) + 0x07800000U) + scaled);
  const auto rounded = ((bits >> 13) & 0x7c00U) + (bits & 0xfffU);
  const auto sign = (word >> 16) & 0x8000U;
  return static_cast<std::uint16_t>(sign | (doubled > 0xff000000U ? 0x7e00U : rounded));
}

}  // namespace lockstep::shm
