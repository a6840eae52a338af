#include "lockstep/nn/halve.h"

#include <algorithm>
#include <bit>

namespace lockstep::nn::halve {
namespace {

// Not `b > a || isnan(b)`: branches would keep the loops from being vectorized.
bool replaces(float b, float a) {
  return static_cast<bool>(static_cast<int>(b > a) | static_cast<int>(b != b));
}

std::uint32_t mask(bool all) { return 0U - static_cast<std::uint32_t>(all); }

void forward_row(const float* __restrict top, const float* __restrict bottom, std::int64_t results,
                 float* __restrict output) {
  for (std::int64_t i = 0; i < results; ++i) {
    float largest = top[2 * i];
    largest = replaces(top[2 * i + 1], largest) ? top[2 * i + 1] : largest;
    largest = replaces(bottom[2 * i], largest) ? bottom[2 * i] : largest;
    output[i] = replaces(bottom[2 * i + 1], largest) ? bottom[2 * i + 1] : largest;
  }
}

struct Rows {
  float* top;
  float* bottom;
};

void backward_row(const float* __restrict top, const float* __restrict bottom, std::int64_t results,
                  const float* __restrict gradient, const Rows& to) {
  float* __restrict to_top = to.top;
  float* __restrict to_bottom = to.bottom;
  for (std::int64_t i = 0; i < results; ++i) {
    const float a = top[2 * i];
    const float b = top[2 * i + 1];
    const float c = bottom[2 * i];
    const float d = bottom[2 * i + 1];
    const auto b_wins = mask(replaces(b, a));
    const float of_top = replaces(b, a) ? b : a;
    const auto c_wins = mask(replaces(c, of_top));
    const auto d_wins = mask(replaces(d, replaces(c, of_top) ? c : of_top));
    // Added to 0, as PyTorch does: a gradient of -0 becomes +0.
    const auto bits = std::bit_cast<std::uint32_t>(0.0F + gradient[i]);
    const auto if_not_d = bits & ~d_wins;
    const auto if_top = if_not_d & ~c_wins;
    to_top[2 * i] = std::bit_cast<float>(if_top & ~b_wins);
    to_top[2 * i + 1] = std::bit_cast<float>(if_top & b_wins);
    to_bottom[2 * i] = std::bit_cast<float>(if_not_d & c_wins);
    to_bottom[2 * i + 1] = std::bit_cast<float>(bits & d_wins);
  }
}

}  // namespace

void forward(const Planes& planes, const float* input, float* output) {
  const auto results = planes.width / 2;
  for (std::int64_t plane = 0; plane < planes.count; ++plane) {
    for (std::int64_t row = 0; row + 1 < planes.height; row += 2) {
      const float* top = input + (plane * planes.height + row) * planes.width;
      forward_row(top, top + planes.width, results, output);
      output += results;
    }
  }
}

void backward(const Planes& planes, const float* input, const float* output_gradient,
              float* input_gradient) {
  const auto width = planes.width;
  const auto results = width / 2;
  for (std::int64_t plane = 0; plane < planes.count; ++plane) {
    for (std::int64_t row = 0; row < planes.height; row += 2) {
      const auto offset = (plane * planes.height + row) * width;
      float* top = input_gradient + offset;
      if (row + 1 == planes.height) {
        std::fill_n(top, width, 0.0F);
        continue;
      }
      backward_row(input + offset, input + offset + width, results, output_gradient,
                   {.top = top, .bottom = top + width});
      output_gradient += results;
      if (width % 2 != 0) {
        top[width - 1] = 0.0F;
        top[2 * width - 1] = 0.0F;
      }
    }
  }
}

}  // namespace lockstep::nn::halve
