#include "lockstep/data/transforms/normalize.h"

namespace lockstep::data {
namespace {

float normalized(float value, const Normalize& by, std::size_t channel) {
  return (value - by.mean[channel]) / by.std[channel];
}

}  // namespace

NormalizeTable to_tensor_table() {
  NormalizeTable table;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    table[0][byte] = static_cast<float>(byte) / 255.0F;
  }
  table[1] = table[0];
  table[2] = table[0];
  return table;
}

void normalize(NormalizeTable& table, const Normalize& by) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (float& value : table[channel]) {
      value = normalized(value, by, channel);
    }
  }
}

void normalize(Size size, std::span<float> planes, const Normalize& by) {
  const auto plane = static_cast<std::size_t>(size.height * size.width);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (float& value : planes.subspan(channel * plane, plane)) {
      value = normalized(value, by, channel);
    }
  }
}

void write_row(const std::uint8_t* pixels, const NormalizeTable& table, const PlaneRow& row,
               std::span<float> planes) {
  const std::int64_t width = row.size.width;
  const std::int64_t plane = row.size.height * width;
  float* const red = planes.data() + row.y * width;
  float* const green = red + plane;
  float* const blue = green + plane;
  const std::int64_t step = row.flip ? -1 : 1;
  std::int64_t at = row.flip ? width - 1 : 0;
  for (std::int64_t x = 0; x < width; ++x, pixels += 3, at += step) {
    red[at] = table[0][pixels[0]];
    green[at] = table[1][pixels[1]];
    blue[at] = table[2][pixels[2]];
  }
}

}  // namespace lockstep::data
