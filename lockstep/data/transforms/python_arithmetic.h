// What Pillow and torchvision compute in Python, where each product and each sum is rounded. Their
// C code may round once for both, and so may ours: that depends on the processor.
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/decode/image.h"

namespace lockstep::data {

// Place (x, y) of the result is (m0 x + m1 y + m2, m3 x + m4 y + m5) of the picture.
using AffineMatrix = std::array<double, 6>;

// torchvision's affine() with scale 1. Angles are in degrees.
struct AffineParameters {
  std::array<double, 2> center = {0, 0};
  std::array<double, 2> translate = {0, 0};
  std::array<double, 2> shear = {0, 0};
};
AffineMatrix inverse_affine_matrix(const AffineParameters& parameters);

// The matrix of Pillow's Image.rotate(), around the center.
AffineMatrix rotation_matrix(double degrees, Size size);

// The table of Pillow's ImageOps.autocontrast(): `low` becomes 0 and `high` 255.
std::array<std::uint8_t, 256> stretch_table(std::int64_t low, std::int64_t high);

}  // namespace lockstep::data
