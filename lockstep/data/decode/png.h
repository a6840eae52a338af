// PNG, by libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Throws IoError. Where libpng was missing when this was built, always.
Image decode_png(std::span<const std::byte> file, std::int64_t max_pixels);

// "libpng 10639", of the library that is loaded.
std::string png_library();

}  // namespace lockstep::data
