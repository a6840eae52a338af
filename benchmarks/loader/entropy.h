// The floor of reading JPEGs: what no decoder that looks at all coefficients can leave out.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lockstep::bench {

// Undoes the entropy coding of a whole JPEG and nothing else; returns a number that follows from
// the coefficients. A damaged file ends the program.
double decode_entropy(std::span<const std::byte> file);

// "2.1.5": that of libjpeg-turbo's headers.
std::string jpeg_version();

}  // namespace lockstep::bench
