#include "lockstep/data/transforms/python_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>

namespace lockstep::data {
namespace {

double radians(double degrees) { return degrees * (std::numbers::pi / 180); }

// Python's round(value, 15).
double round_15(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.15f", value);
  return std::strtod(text.data(), nullptr);
}

}  // namespace

AffineMatrix inverse_affine_matrix(const AffineParameters& parameters) {
  const double shear_x = radians(parameters.shear[0]);
  const double shear_y = radians(parameters.shear[1]);
  const double a = std::cos(-shear_y) / std::cos(shear_y);
  const double b = -std::cos(-shear_y) * std::tan(shear_x) / std::cos(shear_y);
  const double c = std::sin(-shear_y) / std::cos(shear_y);
  const double d = -std::sin(-shear_y) * std::tan(shear_x) / std::cos(shear_y) + 1;
  const auto [center_x, center_y] = parameters.center;
  const auto [move_x, move_y] = parameters.translate;
  AffineMatrix matrix = {d, -b, 0, -c, a, 0};
  matrix[2] = matrix[0] * (-center_x - move_x) + matrix[1] * (-center_y - move_y) + center_x;
  matrix[5] = matrix[3] * (-center_x - move_x) + matrix[4] * (-center_y - move_y) + center_y;
  return matrix;
}

AffineMatrix rotation_matrix(double degrees, Size size) {
  const double angle = -radians(degrees);
  const double cosine = round_15(std::cos(angle));
  const double sine = round_15(std::sin(angle));
  const double minus_sine = round_15(-std::sin(angle));
  const double center_x = static_cast<double>(size.width) / 2;
  const double center_y = static_cast<double>(size.height) / 2;
  return {cosine,     sine,   cosine * -center_x + sine * -center_y + center_x,
          minus_sine, cosine, minus_sine * -center_x + cosine * -center_y + center_y};
}

std::array<std::uint8_t, 256> stretch_table(std::int64_t low, std::int64_t high) {
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = -static_cast<double>(low) * scale;
  std::array<std::uint8_t, 256> table;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
  }
  return table;
}

}  // namespace lockstep::data
