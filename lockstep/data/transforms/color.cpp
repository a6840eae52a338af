#include "lockstep/data/transforms/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>

#include "lockstep/data/transforms/python_arithmetic.h"

namespace lockstep::data {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

// Brightness as the eye sees it, ITU-R 601-2.
std::uint8_t luma(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>(
      (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

// Pillow's Image.blend(): from `base` at 0 to `value` at 1 and beyond; cut, not rounded.
// Compilers make one instruction of it where each processor has that, and so did Pillow's.
std::uint8_t blend(int base, int value, float factor) {
#if defined(__aarch64__)
  const float mixed = std::fma(factor, static_cast<float>(value - base), static_cast<float>(base));
#else
  const float mixed = static_cast<float>(base) + factor * static_cast<float>(value - base);
#endif
  return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

void map_bytes(const Table& table, Image& image) {
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; ++i) {
    image.pixels[i] = table[image.pixels[i]];
  }
}

void map_bytes(const std::array<Table, 3>& tables, Image& image) {
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; i += 3) {
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[i + c] = tables[c][image.pixels[i + c]];
    }
  }
}

template <class Function>
Table table_of(Function function) {
  Table table;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(function(i));
  }
  return table;
}

std::array<Histogram, 3> histograms(const Image& image) {
  std::array<Histogram, 3> counts{};
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; i += 3) {
    for (std::size_t c = 0; c < 3; ++c) {
      ++counts[c][image.pixels[i + c]];
    }
  }
  return counts;
}

Table contrast_table(const Histogram& histogram) {
  const auto used = [](std::int64_t count) { return count > 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), used) - histogram.begin();
  const auto high =
      255 - (std::find_if(histogram.rbegin(), histogram.rend(), used) - histogram.rbegin());
  if (high <= low) {
    return table_of([](int i) { return i; });
  }
  return stretch_table(low, high);
}

Table equal_table(const Histogram& histogram) {
  const auto last = std::find_if(histogram.rbegin(), histogram.rend(),
                                 [](std::int64_t count) { return count > 0; });
  const std::int64_t pixels = std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0});
  const std::int64_t step = (pixels - *last) / 255;
  if (step == 0) {
    return table_of([](int i) { return i; });
  }
  std::int64_t sum = step / 2;
  return table_of([&](int i) {
    const std::int64_t value = std::min(sum / step, std::int64_t{255});
    sum += histogram[static_cast<std::size_t>(i)];
    return value;
  });
}

struct Hsv {
  std::uint8_t hue = 0;
  std::uint8_t saturation = 0;
  std::uint8_t value = 0;
};

std::uint8_t cut_to_byte(double number) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(number), 0, 255));
}

// With floats where Pillow has floats, so that the bytes are the same.
Hsv hsv_of(const std::uint8_t* pixel) {
  const auto [lowest, highest] = std::minmax({pixel[0], pixel[1], pixel[2]});
  if (lowest == highest) {
    return {.value = highest};
  }
  const auto range = static_cast<float>(highest - lowest);
  const float red = static_cast<float>(highest - pixel[0]) / range;
  const float green = static_cast<float>(highest - pixel[1]) / range;
  const float blue = static_cast<float>(highest - pixel[2]) / range;
  float hue = 0;
  if (pixel[0] == highest) {
    hue = blue - green;
  } else if (pixel[1] == highest) {
    hue = static_cast<float>(2.0 + red - blue);
  } else {
    hue = static_cast<float>(4.0 + green - red);
  }
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(highest);
  return {.hue = cut_to_byte(hue * 255.0),
          .saturation = cut_to_byte(saturation * 255.0),
          .value = highest};
}

void set_hsv(const Hsv& hsv, std::uint8_t* pixel) {
  const std::uint8_t v = hsv.value;
  if (hsv.saturation == 0) {
    std::memset(pixel, v, 3);
    return;
  }
  const double place = static_cast<float>(hsv.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(place));
  const auto within = static_cast<float>(place - static_cast<float>(sector));
  const auto saturation = static_cast<float>(static_cast<float>(hsv.saturation) / 255.0);
  const auto part = [v](double factor) { return cut_to_byte(std::round(v * factor)); };
  const std::uint8_t p = part(1.0 - saturation);
  const std::uint8_t q = part(1.0 - saturation * within);
  const std::uint8_t t = part(1.0 - saturation * (1.0 - within));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::memcpy(pixel, sectors[static_cast<std::size_t>(sector % 6)].data(), 3);
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  const auto strength = static_cast<float>(factor);
  map_bytes(table_of([&](int i) { return blend(0, i, strength); }), image);
}

void adjust_contrast(Image& image, double factor) {
  const std::size_t bytes = image.bytes();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += 3) {
    sum += luma(&image.pixels[i]);
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(image.width * image.height);
  const int gray = static_cast<int>(mean + 0.5);
  const auto strength = static_cast<float>(factor);
  map_bytes(table_of([&](int i) { return blend(gray, i, strength); }), image);
}

void adjust_saturation(Image& image, double factor) {
  const auto strength = static_cast<float>(factor);
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; i += 3) {
    const int gray = luma(&image.pixels[i]);
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[i + c] = blend(gray, image.pixels[i + c], strength);
    }
  }
}

// The smooth picture is the mean of 3x3 pixels where the one in the middle counts five times; the
// border has no such mean and stays.
void adjust_sharpness(Image& image, double factor) {
  if (image.width < 3 || image.height < 3) {
    return;
  }
  const auto strength = static_cast<float>(factor);
  const std::size_t row_bytes = image.row_bytes();
  auto original = std::make_unique_for_overwrite<std::uint8_t[]>(image.bytes());
  std::memcpy(original.get(), image.pixels.get(), image.bytes());
  for (std::int64_t y = 1; y < image.height - 1; ++y) {
    const std::uint8_t* middle = original.get() + static_cast<std::size_t>(y) * row_bytes;
    const std::uint8_t* above = middle - row_bytes;
    const std::uint8_t* below = middle + row_bytes;
    std::uint8_t* out = image.row(y);
    for (std::size_t i = 3; i < row_bytes - 3; ++i) {
      const int sum = above[i - 3] + above[i] + above[i + 3] + middle[i - 3] + 5 * middle[i] +
                      middle[i + 3] + below[i - 3] + below[i] + below[i + 3];
      out[i] = blend((2 * sum + 13) / 26, middle[i], strength);
    }
  }
}

void adjust_hue(Image& image, double factor) {
  const auto shift = static_cast<std::uint8_t>(static_cast<std::int32_t>(factor * 255));
  const std::size_t bytes = image.bytes();
  for (std::size_t i = 0; i < bytes; i += 3) {
    Hsv hsv = hsv_of(&image.pixels[i]);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + shift);
    set_hsv(hsv, &image.pixels[i]);
  }
}

void posterize(Image& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  map_bytes(table_of([&](int i) { return i & mask; }), image);
}

void solarize(Image& image, double threshold) {
  map_bytes(table_of([&](int i) { return i < threshold ? i : 255 - i; }), image);
}

void autocontrast(Image& image) {
  const auto counts = histograms(image);
  map_bytes({contrast_table(counts[0]), contrast_table(counts[1]), contrast_table(counts[2])},
            image);
}

void equalize(Image& image) {
  const auto counts = histograms(image);
  map_bytes({equal_table(counts[0]), equal_table(counts[1]), equal_table(counts[2])}, image);
}

}  // namespace lockstep::data
