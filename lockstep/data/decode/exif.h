// How a camera was held, from the EXIF data of a JPEG.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// 1 to 8 as in EXIF; 1, which changes nothing, if the file says nothing or nonsense.
int exif_orientation(std::span<const std::byte> jpeg);

// The picture as it was meant to be seen, for an orientation of 1 to 8.
Image turn(Image image, int orientation);

}  // namespace lockstep::data
