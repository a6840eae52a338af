// Moving pixels about: cropping, padding, flipping, and affine maps as Pillow does them.
#pragma once

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/python_arithmetic.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// The box may reach beyond the picture: what is outside gets the colour.
Image crop(ImageView image, const Box& box, const Color& fill = {0, 0, 0});
// torchvision's pad(), not for kConstant; how much is not negative.
Image pad(ImageView image, const Padding& padding, PaddingMode mode);
Image horizontal_flip(ImageView image);
Image vertical_flip(ImageView image);

// Places beyond the picture get the colour. Not for kBicubic.
Image affine(ImageView image, const AffineMatrix& matrix, Interpolation interpolation,
             const Color& fill);

// Pillow's Image.rotate(): counter-clockwise around the center.
Image rotate(ImageView image, double degrees, Interpolation interpolation, const Color& fill);

}  // namespace lockstep::data
