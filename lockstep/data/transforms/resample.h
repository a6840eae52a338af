// Resizing with the bytes of Pillow's Image.resize().
//
// Each side is a pass of its own, with weights of 22 bits and rounding to bytes in between. A
// triangle (kBilinear) or cubic (kBicubic) filter grows with the reduction, so every pixel counts,
// which torchvision calls antialias; kNearest takes single pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/resample_wide.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// As many pixels as resizing may give, 768 MiB of them: a file with a single row becomes larger
// than any memory where its shorter side is resized.
constexpr std::int64_t kMostPixels = 1 << 28;

FloatBox whole(const ImageView& image);

// What each pixel of a side is made of: as many pixels for each, some with weight 0 maybe, because
// loops of one length are quick.
struct Weights {
  std::int32_t count = 0;
  std::vector<std::int32_t> first;    // The first pixel that counts, for each result.
  std::vector<std::int32_t> weights;  // `count` for each result; 2^22 is 1.

  [[nodiscard]] const std::int32_t* of(std::size_t result) const {
    return weights.data() + result * static_cast<std::size_t>(count);
  }
};

// The size to resize to, and the part of that result that is wanted.
struct Resized {
  Size size;
  Box window;
};

// Throws IoError if a result would have more than kMostPixels.
void require_possible(Size result);

// Gives the rows of a resized picture one after another, so that a caller can flip and normalise
// them while they are in the processor's cache. The picture must stay.
class RowResizer {
 public:
  // Resizes the box of the image to the size, and gives the window of that; nothing outside of the
  // window costs time or memory. Like Pillow's, filters reach beyond the box, not beyond the image.
  // All sides are positive, box and window lie inside; the filter is not kNearest.
  RowResizer(ImageView image, const FloatBox& box, const Resized& resized,
             Interpolation interpolation);

  // The next row, top first: window.width pixels, valid until the next call.
  const std::uint8_t* next();

 private:
  using Bytes = std::unique_ptr<std::uint8_t[]>;

  void narrow(const RowPair& rows, const RowPairOut& out);
  std::span<const std::uint8_t> blend(std::int64_t y, std::uint8_t* out);
  const std::uint8_t* next_rows_first(std::int64_t y);
  const std::uint8_t* next_columns_first(std::int64_t y);
  std::uint8_t* ring_row(std::int64_t y) {
    return narrow_.get() + static_cast<std::size_t>(y % ring_) * stride_;
  }
  [[nodiscard]] std::span<const std::uint8_t> image_row(std::int64_t y) const {
    return {image_.row(y), row_bytes()};
  }
  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(image_.width) * 3; }

  Box window_;
  ImageView image_;  // All of its rows, and the columns that count.
  bool same_width_;
  bool same_height_;
  bool rows_first_;
  Weights columns_;
  Weights rows_;
  std::size_t stride_;
  std::int64_t ring_;
  std::unique_ptr<PixelPair[]> pixels_;
  Bytes narrow_;   // Columns first: a ring of the last rows that went through that pass.
  Bytes blended_;  // Rows first: two rows that did.
  Bytes out_;
  std::vector<const std::uint8_t*> inputs_;
  std::int64_t next_ = 0;
  std::int64_t narrowed_ = 0;  // Rows of the image above this one went through the first pass.
};

// Throws UsageError unless all sides are positive, and what require_possible() throws.
Image resize(ImageView image, Size size, Interpolation interpolation);
// What a RowResizer of these gives.
Image resize(ImageView image, const FloatBox& box, const Resized& resized,
             Interpolation interpolation);

}  // namespace lockstep::data
