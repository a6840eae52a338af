// The inner loops of resizing, in one namespace per file that includes this: each is compiled for
// other processors, and no function of one may stand in for that of another.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "lockstep/data/transforms/resample.h"
#include "lockstep/data/transforms/resample_wide.h"

namespace lockstep::data {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t byte_of(std::int32_t sum) {
  const std::int32_t value = sum >> kWeightBits;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

using Bytes = std::uint8_t __attribute__((vector_size(16)));

// The lowest byte of four numbers; writes a byte more than the pixel has.
void store_pixel(const std::int32_t* numbers, std::uint8_t* pixel) {
  Bytes bytes;
  std::memcpy(&bytes, numbers, sizeof bytes);
  bytes = __builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  std::memcpy(pixel, &bytes, 4);
}

void store_pixels(const PixelPair& sum, std::uint8_t* upper, std::uint8_t* lower) {
  PixelPair value = sum >> kWeightBits;
  value = value < 0 ? 0 : value;
  value = value > 255 ? 255 : value;
  std::int32_t numbers[8];
  std::memcpy(numbers, &value, sizeof numbers);
  store_pixel(numbers, upper);
  store_pixel(numbers + 4, lower);
}

// Pixels are spread out first: each of them counts in several results.
void spread_out(std::span<const std::uint8_t> row, std::int32_t* pixels) {
  constexpr std::size_t kStride = sizeof(PixelPair) / sizeof(std::int32_t);
  constexpr Bytes kZero = {};
  constexpr std::size_t kStep = 12;  // Four pixels; what is read is a little more.
  const auto store = [](Bytes pixel, std::int32_t* to) { std::memcpy(to, &pixel, sizeof pixel); };
  std::size_t at = 0;
  for (; at + sizeof(Bytes) <= row.size(); at += kStep, pixels += 4 * kStride) {
    Bytes bytes;
    std::memcpy(&bytes, row.data() + at, sizeof bytes);
    store(__builtin_shufflevector(bytes, kZero, 0, 16, 16, 16, 1, 16, 16, 16, 2, 16, 16, 16, 16, 16,
                                  16, 16),
          pixels);
    store(__builtin_shufflevector(bytes, kZero, 3, 16, 16, 16, 4, 16, 16, 16, 5, 16, 16, 16, 16, 16,
                                  16, 16),
          pixels + kStride);
    store(__builtin_shufflevector(bytes, kZero, 6, 16, 16, 16, 7, 16, 16, 16, 8, 16, 16, 16, 16, 16,
                                  16, 16),
          pixels + 2 * kStride);
    store(__builtin_shufflevector(bytes, kZero, 9, 16, 16, 16, 10, 16, 16, 16, 11, 16, 16, 16, 16,
                                  16, 16, 16),
          pixels + 3 * kStride);
  }
  for (; at < row.size(); at += 3, pixels += kStride) {
    for (std::size_t c = 0; c < 3; ++c) {
      pixels[c] = row[at + c];
    }
    pixels[3] = 0;
  }
}

// With a count that the compiler knows, or else 0.
template <std::int32_t kCount>
void weigh_columns(const Weights& columns, const PixelPair* pixels, const RowPairOut& out) {
  const std::int32_t count = kCount > 0 ? kCount : columns.count;
  const std::int32_t* weights = columns.weights.data();
  const std::int32_t* firsts = columns.first.data();
  const std::size_t bytes = columns.first.size() * 3;
  for (std::size_t at = 0; at < bytes; at += 3, weights += count) {
    const PixelPair* pixel = pixels + *firsts++;
    PixelPair sum = {kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf, kHalf};
    for (std::int32_t k = 0; k < count; ++k) {
      sum += pixel[k] * weights[k];
    }
    store_pixels(sum, out.upper + at, out.lower + at);
  }
}

void resample_rows(const RowPair& rows, const Weights& columns, PixelPair* pixels,
                   const RowPairOut& out) {
  auto* const numbers = reinterpret_cast<std::int32_t*>(pixels);
  spread_out(rows.upper, numbers);
  spread_out(rows.lower, numbers + 4);
  switch (columns.count) {
    case 2:
      return weigh_columns<2>(columns, pixels, out);
    case 3:
      return weigh_columns<3>(columns, pixels, out);
    case 4:
      return weigh_columns<4>(columns, pixels, out);
    case 5:
      return weigh_columns<5>(columns, pixels, out);
    case 6:
      return weigh_columns<6>(columns, pixels, out);
    default:
      return weigh_columns<0>(columns, pixels, out);
  }
}

void blend_rows(std::span<const std::uint8_t* const> rows, const std::int32_t* weights,
                std::span<std::uint8_t> out) {
  constexpr std::size_t kBlock = 32;
  std::size_t at = 0;
  for (; at + kBlock <= out.size(); at += kBlock) {
    std::array<std::int32_t, kBlock> sum;
    sum.fill(kHalf);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::uint8_t* row = rows[k] + at;
      const std::int32_t weight = weights[k];
      for (std::size_t i = 0; i < kBlock; ++i) {
        sum[i] += row[i] * weight;
      }
    }
    for (std::size_t i = 0; i < kBlock; ++i) {
      out[at + i] = byte_of(sum[i]);
    }
  }
  for (; at < out.size(); ++at) {
    std::int32_t sum = kHalf;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      sum += rows[k][at] * weights[k];
    }
    out[at] = byte_of(sum);
  }
}

}  // namespace
}  // namespace lockstep::data
