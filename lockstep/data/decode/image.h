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

// Height first, as in torchvision and in tensors; one number is a square.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr Size() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): so that `.size = 224` reads as in torchvision.
  constexpr Size(std::int64_t side) : height(side), width(side) {}
  constexpr Size(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  bool operator==(const Size&) const = default;
};

// Part of a picture, in whole pixels.
struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool operator==(const Box&) const = default;
};

// Part of a picture, in fractions of pixels.
struct FloatBox {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

inline FloatBox float_box(const Box& box) {
  return {.left = static_cast<double>(box.left),
          .top = static_cast<double>(box.top),
          .width = static_cast<double>(box.width),
          .height = static_cast<double>(box.height)};
}

// Pixels that belong to somebody else: all of a picture or part of its columns and rows.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::size_t row_bytes = 0;  // From a row to the next one.

  ImageView() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): what takes a view takes a picture.
  ImageView(const Image& image)
      : pixels(image.pixels.get()),
        width(image.width),
        height(image.height),
        row_bytes(image.row_bytes()) {}

  [[nodiscard]] Size size() const { return {height, width}; }
  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const {
    return pixels + static_cast<std::size_t>(y) * row_bytes;
  }
  // The box must lie inside.
  [[nodiscard]] ImageView part(const Box& box) const {
    ImageView inner = *this;
    inner.pixels = row(box.top) + box.left * 3;
    inner.width = box.width;
    inner.height = box.height;
    return inner;
  }
};

// Throws IoError if a side is not positive or there are more than `max_pixels`.
void require_image_size(std::int64_t width, std::int64_t height, std::int64_t max_pixels);

// With undefined pixels. Throws IoError, before memory is taken, if a side is not positive or there
// are more than `max_pixels`.
Image make_image(std::int64_t width, std::int64_t height, std::int64_t max_pixels);

}  // namespace lockstep::data
