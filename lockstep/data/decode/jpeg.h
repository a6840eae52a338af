// JPEG, by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "lockstep/data/decode/decode.h"
#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Throws IoError. Where libjpeg was missing when this was built, always.
Image decode_jpeg(std::span<const std::byte> file, std::int64_t max_pixels);

// See decode_part().
DecodedPart decode_jpeg_part(std::span<const std::byte> file,
                             const std::function<WantedPart(Size)>& choose,
                             const DecodeOptions& options);

}  // namespace lockstep::data
