// Pictures for tests of those who change them.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

inline Image picture_of(std::string_view pixels, Size size) {
  Image image = make_image(size.width, size.height, std::numeric_limits<std::int64_t>::max());
  std::memcpy(image.pixels.get(), pixels.data(), image.bytes());
  return image;
}

inline std::string pixels_text(const Image& image) {
  return {reinterpret_cast<const char*>(image.pixels.get()), image.bytes()};
}

inline std::string view_text(ImageView view) {
  std::string text;
  for (std::int64_t y = 0; y < view.height; ++y) {
    text.append(reinterpret_cast<const char*>(view.row(y)),
                static_cast<std::size_t>(view.width) * 3);
  }
  return text;
}

inline Image copy_of(const Image& image) {
  return picture_of(pixels_text(image), {image.height, image.width});
}

// Every pixel differs from its neighbours, the same in each run.
inline Image test_picture(Size size) {
  Image image = make_image(size.width, size.height, std::numeric_limits<std::int64_t>::max());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < image.bytes(); ++i) {
    state = state * 1664525 + 1013904223;
    image.pixels[i] = static_cast<std::uint8_t>(state >> 24);
  }
  return image;
}

}  // namespace lockstep::data
