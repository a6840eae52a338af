#include "lockstep/data/decode/image.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

void require_image_size(std::int64_t width, std::int64_t height, std::int64_t max_pixels) {
  const auto refuse = [&](const std::string& expected) {
    throw IoError("the header says " + std::to_string(width) + "x" + std::to_string(height) +
                  " pixels, expected " + expected);
  };
  if (width < 1 || height < 1) {
    refuse("at least 1x1");
  }
  if (height > max_pixels / width) {
    refuse("at most " + std::to_string(max_pixels) +
           " in all; resize the file, or raise max_pixels in a program of yours");
  }
}

Image make_image(std::int64_t width, std::int64_t height, std::int64_t max_pixels) {
  require_image_size(width, height, max_pixels);
  Image image{.width = width, .height = height, .pixels = nullptr};
  image.pixels = std::make_unique_for_overwrite<std::uint8_t[]>(image.bytes());
  return image;
}

}  // namespace lockstep::data
