// The two inner loops of resizing; resample_wide.cpp has them for processors with wider vectors
// than every machine has. The results are the same, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::data {

struct Weights;

inline constexpr int kWeightBits = 22;

// Two pixels as the loops want them, of one column and two rows: red, green, blue and nothing.
using PixelPair = std::int32_t __attribute__((vector_size(32)));

// Two rows; they may be the same.
struct RowPair {
  std::span<const std::uint8_t> upper;
  std::span<const std::uint8_t> lower;
};
struct RowPairOut {  // Each has room for a byte more than its pixels.
  std::uint8_t* upper;
  std::uint8_t* lower;
};

// Columns of two rows. `pixels` has room for a row.
using ResampleRows = void (*)(const RowPair& rows, const Weights& columns, PixelPair* pixels,
                              const RowPairOut& out);

// One row of as many bytes as `out` has, from `rows`, weighted.
using BlendRows = void (*)(std::span<const std::uint8_t* const> rows, const std::int32_t* weights,
                           std::span<std::uint8_t> out);

struct ResampleLoops {
  ResampleRows resample_rows;
  BlendRows blend_rows;
};

// Nothing if this processor does not have what they were compiled for.
const ResampleLoops* wide_resample_loops();

}  // namespace lockstep::data
