// Moving pixels about: cropping, padding, flipping, and affine maps as Pillow does them.
#pragma once

#include <array>

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// The box may reach beyond the picture: what is outside gets the colour.
Image crop(ImageView image, const Box& box, const Color& fill = {0, 0, 0});
// torchvision's pad(), not for kConstant; how much is not negative.
Image pad(ImageView image, const Padding& padding, PaddingMode mode);
Image horizontal_flip(ImageView image);
Image vertical_flip(ImageView image);

// Place (x, y) of the result is (m0 x + m1 y + m2, m3 x + m4 y + m5) of the picture; places beyond
// it get the colour. Not for kBicubic.
using AffineMatrix = std::array<double, 6>;
Image affine(ImageView image, const AffineMatrix& matrix, Interpolation interpolation,
             const Color& fill);

// torchvision's affine() with scale 1. Angles are in degrees.
struct AffineParameters {
  std::array<double, 2> center = {0, 0};
  std::array<double, 2> translate = {0, 0};
  std::array<double, 2> shear = {0, 0};
};
AffineMatrix inverse_affine_matrix(const AffineParameters& parameters);

// Pillow's Image.rotate(): counter-clockwise around the center.
Image rotate(ImageView image, double degrees, Interpolation interpolation, const Color& fill);

}  // namespace lockstep::data
