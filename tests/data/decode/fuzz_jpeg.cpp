// Whatever is in a file: a picture of the size that its header says, or part of it, or an IoError.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/exif.h"
#include "lockstep/data/decode/jpeg.h"

namespace {

// Any box inside, by what the file says.
lockstep::data::WantedPart some_part(lockstep::data::Size image, std::span<const std::byte> file) {
  std::uint32_t state = static_cast<std::uint32_t>(file.size());
  for (const std::byte byte : file.last(std::min(file.size(), std::size_t{16}))) {
    state = state * 16777619 ^ std::to_integer<std::uint32_t>(byte);
  }
  const auto below = [&](std::int64_t limit) {
    state = state * 1664525 + 1013904223;
    return static_cast<std::int64_t>(state >> 8) % limit;
  };
  lockstep::data::Box box{.left = below(image.width), .top = below(image.height)};
  box.width = 1 + below(image.width - box.left);
  box.height = 1 + below(image.height - box.top);
  return {.box = box, .size = {1 + below(box.height), 1 + below(box.width)}};
}

void decode_some_part(std::span<const std::byte> file, bool fast) {
  try {
    const auto part = lockstep::data::decode_jpeg_part(
        file, [&](lockstep::data::Size size) { return some_part(size, file); },
        {.max_pixels = 1 << 16, .fast = fast});
    const auto& [left, top, width, height] = part.box;
    if (left < 0 || top < 0 || left + width > static_cast<double>(part.image.width) ||
        top + height > static_cast<double>(part.image.height)) {
      std::abort();
    }
  } catch (const lockstep::IoError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const int orientation = lockstep::data::exif_orientation(file);
  try {
    lockstep::data::turn(lockstep::data::decode_jpeg(file, 1 << 16), orientation);
  } catch (const lockstep::IoError&) {
  }
  decode_some_part(file, /*fast=*/false);
  decode_some_part(file, /*fast=*/true);
  return 0;
}
