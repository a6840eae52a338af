// PGM and PPM, as text (P2, P3) or bytes (P5, P6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Throws IoError.
Image decode_pnm(std::span<const std::byte> file, std::int64_t max_pixels);

}  // namespace lockstep::data
