#include "lockstep/data/transforms/get_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// How often a box of random shape is drawn until one fits.
constexpr int kAttempts = 10;

// Python's round(): halves go to the even number.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

double log_uniform(const Range& range, SampleRandom& random) {
  return std::exp(random.uniform(std::log(range.low), std::log(range.high)));
}

// A random part of the area with a random width / height.
Size random_shape(Size image, const Range& scale, const Range& ratio, SampleRandom& random) {
  const double area =
      static_cast<double>(image.height * image.width) * random.uniform(scale.low, scale.high);
  const double aspect = log_uniform(ratio, random);
  return {rounded(std::sqrt(area / aspect)), rounded(std::sqrt(area * aspect))};
}

Box random_place(Size image, Size size, SampleRandom& random) {
  const std::int64_t top = random.below(image.height - size.height + 1);
  const std::int64_t left = random.below(image.width - size.width + 1);
  return {.left = left, .top = top, .width = size.width, .height = size.height};
}

// The largest box in the middle whose shape is allowed.
Box central_box(Size image, const Range& ratio) {
  const double shape = static_cast<double>(image.width) / static_cast<double>(image.height);
  Size size = image;
  if (shape < ratio.low) {
    size.height = rounded(static_cast<double>(image.width) / ratio.low);
  } else if (shape > ratio.high) {
    size.width = rounded(static_cast<double>(image.height) * ratio.high);
  }
  return {.left = (image.width - size.width) / 2,
          .top = (image.height - size.height) / 2,
          .width = size.width,
          .height = size.height};
}

}  // namespace

Size get_params(const Resize& resize, Size image) {
  if (const Size* size = std::get_if<Size>(&resize.size)) {
    return *size;
  }
  std::int64_t shorter = std::get<std::int64_t>(resize.size);
  const auto [low, high] = std::minmax(image.height, image.width);
  // As Python divides: in doubles, and cut.
  std::int64_t longer =
      static_cast<std::int64_t>(static_cast<double>(shorter * high) / static_cast<double>(low));
  if (resize.max_size && longer > *resize.max_size) {
    shorter = static_cast<std::int64_t>(static_cast<double>(*resize.max_size * shorter) /
                                        static_cast<double>(longer));
    longer = *resize.max_size;
  }
  if (shorter < 1) {
    throw IoError("Resize: of an image of " + std::to_string(image.height) + "x" +
                  std::to_string(image.width) +
                  " pixels nothing would be left of the shorter side; raise max_size");
  }
  return image.width <= image.height ? Size{longer, shorter} : Size{shorter, longer};
}

Box get_params(const CenterCrop& crop, Size image) {
  const auto start = [](std::int64_t have, std::int64_t want) {
    return want > have ? -((want - have) / 2) : rounded(static_cast<double>(have - want) / 2.0);
  };
  return {.left = start(image.width, crop.size.width),
          .top = start(image.height, crop.size.height),
          .width = crop.size.width,
          .height = crop.size.height};
}

Box get_params(const RandomCrop& crop, Size image, SampleRandom& random) {
  Padding padding = crop.padding;
  Size padded{image.height + padding.top + padding.bottom,
              image.width + padding.left + padding.right};
  if (crop.pad_if_needed && padded.width < crop.size.width) {
    const std::int64_t more = crop.size.width - padded.width;
    padding.left += more;
    padded.width += 2 * more;
  }
  if (crop.pad_if_needed && padded.height < crop.size.height) {
    const std::int64_t more = crop.size.height - padded.height;
    padding.top += more;
    padded.height += 2 * more;
  }
  if (padded.height < crop.size.height || padded.width < crop.size.width) {
    throw UsageError("RandomCrop: the image has " + std::to_string(padded.height) + "x" +
                     std::to_string(padded.width) + " pixels, expected at least " +
                     std::to_string(crop.size.height) + "x" + std::to_string(crop.size.width) +
                     "; set pad_if_needed");
  }
  Box box = random_place(padded, crop.size, random);
  box.left -= padding.left;
  box.top -= padding.top;
  return box;
}

Box get_params(const RandomResizedCrop& crop, Size image, SampleRandom& random) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Size size = random_shape(image, crop.scale, crop.ratio, random);
    if (size.width > 0 && size.width <= image.width && size.height > 0 &&
        size.height <= image.height) {
      return random_place(image, size, random);
    }
  }
  return central_box(image, crop.ratio);
}

std::optional<Box> get_params(const RandomErasing& erasing, Size image, SampleRandom& random) {
  if (random.uniform() >= erasing.p) {
    return std::nullopt;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // Here torchvision's ratio is height / width.
    const Size turned = random_shape(image, erasing.scale, erasing.ratio, random);
    const Size size{turned.width, turned.height};
    if (size.height < image.height && size.width < image.width) {
      return random_place(image, size, random);
    }
  }
  return std::nullopt;
}

std::vector<JitterStep> get_params(const ColorJitter& jitter, SampleRandom& random) {
  const std::array<std::pair<Range, double>, 4> ranges = {
      {{jitter.brightness, 1}, {jitter.contrast, 1}, {jitter.saturation, 1}, {jitter.hue, 0}}};
  std::array<Adjustment, 4> order = {Adjustment::kBrightness, Adjustment::kContrast,
                                     Adjustment::kSaturation, Adjustment::kHue};
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<std::size_t>(random.below(static_cast<int>(i) + 1))]);
  }
  std::vector<JitterStep> steps;
  for (const Adjustment adjustment : order) {
    const auto& [range, unchanged] = ranges[static_cast<std::size_t>(adjustment)];
    if (range.low != unchanged || range.high != unchanged) {
      steps.push_back({adjustment, random.uniform(range.low, range.high)});
    }
  }
  return steps;
}

}  // namespace lockstep::data
