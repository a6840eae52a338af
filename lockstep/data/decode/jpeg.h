// JPEG, by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lockstep/data/decode/decode.h"
#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Throws IoError. Where libjpeg was missing when this was built, always.
Image decode_jpeg(std::span<const std::byte> file, std::int64_t max_pixels);

// "libjpeg-turbo 2001005": that of the headers, since the library does not tell its own.
std::string jpeg_library();

// See decode_part().
DecodedPart decode_jpeg_part(std::span<const std::byte> file,
                             const std::function<WantedPart(Size)>& choose,
                             const DecodeOptions& options);

}  // namespace lockstep::data
