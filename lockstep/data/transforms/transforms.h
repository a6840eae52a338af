// What can be done to a picture on its way to the model: torchvision's transforms, with its names,
// parameters and defaults.
//
// Transforms that are not random give the bytes that torchvision gives for a Pillow image; random
// ones draw from the same distributions, but from the sample's own numbers (random.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "lockstep/data/decode/image.h"
#include "lockstep/data/transforms/random.h"

namespace lockstep::data {

enum class Interpolation { kNearest, kBilinear, kBicubic };

struct Range {
  double low = 0;
  double high = 0;
};

using Color = std::array<std::uint8_t, 3>;

struct Resize {
  std::variant<std::int64_t, Size> size;  // A number is what the shorter side becomes.
  Interpolation interpolation = Interpolation::kBilinear;
  std::optional<std::int64_t> max_size;  // The longer side's limit; only where `size` is a number.
};

// Pads with black where the picture is smaller.
struct CenterCrop {
  Size size;
};

struct RandomResizedCrop {
  Size size;
  Range scale = {0.08, 1.0};
  Range ratio = {3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::kBilinear;
};

struct RandomHorizontalFlip {
  double p = 0.5;
};

struct RandomVerticalFlip {
  double p = 0.5;
};

struct Padding {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;

  constexpr Padding() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): so that `.padding = 4` reads as in torchvision.
  constexpr Padding(std::int64_t all) : left(all), top(all), right(all), bottom(all) {}
  constexpr Padding(std::int64_t left_right, std::int64_t top_bottom)
      : left(left_right), top(top_bottom), right(left_right), bottom(top_bottom) {}
  constexpr Padding(std::int64_t l, std::int64_t t, std::int64_t r, std::int64_t b)
      : left(l), top(t), right(r), bottom(b) {}
};

// What lies beyond the border: a colour; the last pixel again; the picture mirrored at its last
// pixel, or behind it.
enum class PaddingMode { kConstant, kEdge, kReflect, kSymmetric };

// A picture smaller than `size` after padding is an error unless pad_if_needed.
struct RandomCrop {
  Size size;
  Padding padding;
  bool pad_if_needed = false;
  Color fill = {0, 0, 0};  // For kConstant.
  PaddingMode padding_mode = PaddingMode::kConstant;
};

// A factor is drawn from each range, the four are applied in random order. A number in torchvision,
// say brightness=0.4, is the range {0.6, 1.4} here, hue=0.1 is {-0.1, 0.1}.
struct ColorJitter {
  Range brightness = {1, 1};
  Range contrast = {1, 1};
  Range saturation = {1, 1};
  Range hue = {0, 0};
};

struct RandAugment {
  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::kNearest;
  Color fill = {0, 0, 0};
};

// One of your own; it may draw random numbers. It must be safe to call from several threads. What
// it throws ends the epoch: an IoError of it does not make the image's file a bad one.
struct Lambda {
  std::function<Image(Image, SampleRandom&)> function;
};

// Bytes to floats in [0, 1], channels first: red plane, green plane, blue plane.
struct ToTensor {};

// Behind ToTensor.
struct Normalize {
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};
};

// Behind ToTensor. No value is torchvision's value="random": each pixel from a normal distribution.
struct RandomErasing {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  std::optional<std::array<float, 3>> value = std::array<float, 3>{0, 0, 0};
};

using Transform =
    std::variant<Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip,
                 RandomCrop, ColorJitter, RandAugment, Lambda, ToTensor, Normalize, RandomErasing>;

}  // namespace lockstep::data
