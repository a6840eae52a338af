// A picture in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::data {

// Red, green and blue of a pixel are one byte each, pixels follow each other in rows, the top row
// comes first.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::unique_ptr<std::uint8_t[]> pixels;

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(width) * 3; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(height) * row_bytes(); }
  [[nodiscard]] std::uint8_t* row(std::int64_t y) const {
    return pixels.get() + static_cast<std::size_t>(y) * row_bytes();
  }
};

// With undefined pixels. Throws IoError, before memory is taken, if a side is not positive or there
// are more than `max_pixels`.
Image make_image(std::int64_t width, std::int64_t height, std::int64_t max_pixels);

}  // namespace lockstep::data
