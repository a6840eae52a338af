// From bytes to the model's floats: ToTensor and Normalize in one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// Three planes of height x width floats, one after another.
struct FloatImage {
  Size size;
  std::unique_ptr<float[]> values;

  [[nodiscard]] std::span<float> span() const {
    return {values.get(), static_cast<std::size_t>(3 * size.height * size.width)};
  }
};

// What each byte of each channel becomes. A table, because dividing twice, as torch does, could not
// be done by multiplying without changing bits.
using NormalizeTable = std::array<std::array<float, 256>, 3>;

NormalizeTable to_tensor_table();  // byte / 255.
void normalize(NormalizeTable& table, const Normalize& by);
void normalize(Size size, std::span<float> planes, const Normalize& by);

// One row of pixels into row `y` of the planes; from right to left if `flip`.
struct PlaneRow {
  Size size;
  std::int64_t y;
  bool flip;
};
void write_row(const std::uint8_t* pixels, const NormalizeTable& table, const PlaneRow& row,
               std::span<float> planes);

}  // namespace lockstep::data
