#include "lockstep/data/transforms/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep::data {
namespace {

Image make(Size size) {
  return make_image(size.width, size.height, std::numeric_limits<std::int64_t>::max());
}

void fill_pixels(std::uint8_t* pixels, std::int64_t count, const Color& color) {
  for (std::int64_t i = 0; i < count; ++i, pixels += 3) {
    std::memcpy(pixels, color.data(), 3);
  }
}

// Where a place beyond the border is found inside, as numpy.pad() has it.
std::int64_t continued(std::int64_t at, std::int64_t size, PaddingMode mode) {
  if (mode == PaddingMode::kEdge || size == 1) {
    return std::clamp(at, std::int64_t{0}, size - 1);
  }
  const std::int64_t twice =
      mode == PaddingMode::kReflect ? 1 : 0;  // Pixels that are not repeated.
  const std::int64_t period = 2 * (size - twice);
  at = (at % period + period) % period;
  return at < size ? at : period - 1 + twice - at;
}

// Where Pillow finds pixels in fixed point, with 16 bits behind the point.
std::int64_t fixed(double value) {
  return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
}

void affine_nearest(ImageView image, const AffineMatrix& m, Image& out) {
  std::int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  std::int64_t row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const std::int64_t step_x = fixed(m[0]);
  const std::int64_t step_y = fixed(m[3]);
  for (std::int64_t y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.row(y);
    std::int64_t place_x = row_x;
    std::int64_t place_y = row_y;
    for (std::int64_t x = 0; x < out.width; ++x, to += 3) {
      const std::int64_t from_x = place_x >> 16;
      const std::int64_t from_y = place_y >> 16;
      if (from_x >= 0 && from_x < image.width && from_y >= 0 && from_y < image.height) {
        std::memcpy(to, image.row(from_y) + from_x * 3, 3);
      }
      place_x += step_x;
      place_y += step_y;
    }
    row_x += fixed(m[1]);
    row_y += fixed(m[4]);
  }
}

void bilinear_pixel(ImageView image, double x, double y, std::uint8_t* out) {
  x -= 0.5;
  y -= 0.5;
  const double left = std::floor(x);
  const double top = std::floor(y);
  const auto column = [&](double at) {
    return std::clamp(static_cast<std::int64_t>(at), std::int64_t{0}, image.width - 1) * 3;
  };
  const auto row = [&](double at) {
    return image.row(std::clamp(static_cast<std::int64_t>(at), std::int64_t{0}, image.height - 1));
  };
  const std::uint8_t* above = row(top);
  const std::uint8_t* below = row(top + 1);
  const std::int64_t x0 = column(left);
  const std::int64_t x1 = column(left + 1);
  for (int c = 0; c < 3; ++c) {
    const double upper = above[x0 + c] + (above[x1 + c] - above[x0 + c]) * (x - left);
    const double lower = below[x0 + c] + (below[x1 + c] - below[x0 + c]) * (x - left);
    out[c] = static_cast<std::uint8_t>(upper + (lower - upper) * (y - top));
  }
}

// Pillow for ARM rounds once for the first product and its sum. A compiler may choose the second.
double weighted(double a, double x, double b, double y) {
#ifdef __aarch64__
  return std::fma(a, x, b * y);
#else
  return a * x + b * y;
#endif
}

void affine_bilinear(ImageView image, const AffineMatrix& m, Image& out) {
  for (std::int64_t y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (std::int64_t x = 0; x < out.width; ++x, to += 3) {
      const double px = static_cast<double>(x) + 0.5;
      const double py = static_cast<double>(y) + 0.5;
      const double from_x = weighted(m[0], px, m[1], py) + m[2];
      const double from_y = weighted(m[3], px, m[4], py) + m[5];
      if (from_x >= 0 && from_x < static_cast<double>(image.width) && from_y >= 0 &&
          from_y < static_cast<double>(image.height)) {
        bilinear_pixel(image, from_x, from_y, to);
      }
    }
  }
}

}  // namespace

Image crop(ImageView image, const Box& box, const Color& fill) {
  Image out = make({box.height, box.width});
  const std::int64_t left = std::clamp(-box.left, std::int64_t{0}, box.width);
  const std::int64_t right = std::clamp(image.width - box.left, left, box.width);
  for (std::int64_t y = 0; y < box.height; ++y) {
    const std::int64_t from = y + box.top;
    std::uint8_t* to = out.row(y);
    if (from < 0 || from >= image.height) {
      fill_pixels(to, box.width, fill);
      continue;
    }
    fill_pixels(to, left, fill);
    std::memcpy(to + left * 3, image.row(from) + (box.left + left) * 3,
                static_cast<std::size_t>(right - left) * 3);
    fill_pixels(to + right * 3, box.width - right, fill);
  }
  return out;
}

Image pad(ImageView image, const Padding& padding, PaddingMode mode) {
  Image out = make(
      {image.height + padding.top + padding.bottom, image.width + padding.left + padding.right});
  std::vector<std::int64_t> columns(static_cast<std::size_t>(out.width));
  for (std::int64_t x = 0; x < out.width; ++x) {
    columns[static_cast<std::size_t>(x)] = continued(x - padding.left, image.width, mode) * 3;
  }
  for (std::int64_t y = 0; y < out.height; ++y) {
    const std::uint8_t* from = image.row(continued(y - padding.top, image.height, mode));
    std::uint8_t* to = out.row(y);
    for (const std::int64_t column : columns) {
      std::memcpy(to, from + column, 3);
      to += 3;
    }
  }
  return out;
}

Image horizontal_flip(ImageView image) {
  Image out = make(image.size());
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* from = image.row(y);
    std::uint8_t* to = out.row(y) + (image.width - 1) * 3;
    for (std::int64_t x = 0; x < image.width; ++x, from += 3, to -= 3) {
      std::memcpy(to, from, 3);
    }
  }
  return out;
}

Image vertical_flip(ImageView image) {
  Image out = make(image.size());
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::memcpy(out.row(y), image.row(image.height - 1 - y), out.row_bytes());
  }
  return out;
}

Image affine(ImageView image, const AffineMatrix& matrix, Interpolation interpolation,
             const Color& fill) {
  Image out = make(image.size());
  fill_pixels(out.pixels.get(), out.width * out.height, fill);
  if (interpolation == Interpolation::kNearest) {
    affine_nearest(image, matrix, out);
  } else {
    affine_bilinear(image, matrix, out);
  }
  return out;
}

Image rotate(ImageView image, double degrees, Interpolation interpolation, const Color& fill) {
  double turn = std::fmod(degrees, 360.0);
  turn += turn < 0 ? 360.0 : 0.0;
  if (turn == 0) {
    return crop(image, {.width = image.width, .height = image.height});
  }
  return affine(image, rotation_matrix(turn, image.size()), interpolation, fill);
}

}  // namespace lockstep::data
