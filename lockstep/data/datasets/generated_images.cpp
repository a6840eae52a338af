#include "lockstep/data/datasets/generated_images.h"

#include <ATen/ops/empty.h>

#include <array>
#include <span>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

constexpr int kSide = 28;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
using Pixels = std::span<std::uint8_t, kPixels>;

// splitmix64: small, and the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  int between(int low, int high) {  // Both included.
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

void fill_with_noise(Random& random, Pixels pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += 8) {
    std::uint64_t word = random.next();
    for (std::size_t j = i; j < i + 8; ++j, word >>= 8) {
      pixels[j] = word & 0x3f;
    }
  }
}

// A bar of the display, in steps of half the digit's height: from (x, y), one step right or down.
struct Segment {
  int x;
  int y;
  bool horizontal;
};
constexpr std::array<Segment, 7> kSegments{{{0, 0, true},    // a, at the top
                                            {1, 0, false},   // b, then clockwise
                                            {1, 1, false},   // c
                                            {0, 2, true},    // d
                                            {0, 1, false},   // e
                                            {0, 0, false},   // f
                                            {0, 1, true}}};  // g, in the middle
// Which segments a digit lights: bit 0 is a.
constexpr std::array<unsigned, 10> kLit{0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f};

void draw_digit(Random& random, std::size_t digit, Pixels pixels) {
  const int step = random.between(7, 9);  // Length of a bar.
  const int thickness = random.between(2, 3);
  const int slant = random.between(-4, 4);  // The top leans to the right by half of it.
  const int left = (kSide - step - thickness) / 2 + random.between(-2, 2);
  const int top = (kSide - 2 * step - thickness) / 2 + random.between(-2, 2);
  const int brightness = random.between(96, 192);
  for (std::size_t s = 0; s < kSegments.size(); ++s) {
    if ((kLit[digit] >> s & 1U) == 0) {
      continue;
    }
    const auto [x, y, horizontal] = kSegments[s];
    const int width = horizontal ? step + thickness : thickness;
    const int height = horizontal ? thickness : step + thickness;
    for (int row = y * step; row < y * step + height; ++row) {
      const int lean = slant * (step - row) / (2 * step);
      for (int column = x * step; column < x * step + width; ++column) {
        const int place = (top + row) * kSide + left + lean + column;
        auto& pixel = pixels[static_cast<std::size_t>(place)];
        pixel = static_cast<std::uint8_t>(brightness + (pixel & 0x3f));  // At most 255.
      }
    }
  }
}

}  // namespace

ImageDataset generated_images(const GeneratedImagesOptions& options) {
  if (options.size < 0) {
    throw UsageError("generated_images: size is " + std::to_string(options.size) +
                     ", expected 0 or more");
  }
  const at::Tensor images = at::empty({options.size, kSide, kSide}, at::kByte);
  const at::Tensor labels = at::empty({options.size}, at::kLong);
  auto* pixels = images.mutable_data_ptr<std::uint8_t>();
  auto* classes = labels.mutable_data_ptr<std::int64_t>();
  const std::uint64_t origin = Random(options.seed).next();
  for (std::int64_t i = 0; i < options.size; ++i) {
    Random random(Random(origin ^ static_cast<std::uint64_t>(i)).next());
    classes[i] = random.between(0, 9);
    const Pixels image(pixels + static_cast<std::size_t>(i) * kPixels, kPixels);
    fill_with_noise(random, image);
    draw_digit(random, static_cast<std::size_t>(classes[i]), image);
  }
  return {images, labels, {.normalization = options.normalization}};
}

}  // namespace lockstep::data
