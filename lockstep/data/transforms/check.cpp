#include "lockstep/data/transforms/check.h"

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/transforms/resample.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& expected) {
  throw UsageError(what + ", expected " + expected);
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + "0" : text;
}

void check_size(const std::string& name, Size size) {
  if (size.height < 1 || size.width < 1) {
    refuse(name + ": size is " + std::to_string(size.height) + "x" + std::to_string(size.width),
           "at least 1x1");
  }
  if (size.height > kMostPixels / size.width) {
    refuse(name + ": size is " + std::to_string(size.height) + "x" + std::to_string(size.width),
           "at most " + std::to_string(kMostPixels) + " pixels in all");
  }
}

void check_range(const std::string& name, const Range& range, double low, double high) {
  if (!(range.low >= low && range.low <= range.high && range.high <= high)) {
    refuse(name + " is {" + number_text(range.low) + ", " + number_text(range.high) + "}",
           "{low, high} with low <= high, from " + number_text(low) + " to " + number_text(high));
  }
}

void check_probability(const std::string& name, double p) {
  if (!(p >= 0 && p <= 1)) {
    refuse(name + ": p is " + number_text(p), "0 to 1");
  }
}

constexpr double kLargest = 1e9;    // The largest factor or ratio.
constexpr double kSmallest = 1e-9;  // The smallest ratio: its logarithm is taken.

struct Check {
  void operator()(const Resize& resize) const {
    if (const Size* size = std::get_if<Size>(&resize.size)) {
      check_size("Resize", *size);
      if (resize.max_size) {
        refuse("Resize: max_size is given with both sides", "it only where size is a number");
      }
      return;
    }
    const std::int64_t side = std::get<std::int64_t>(resize.size);
    check_size("Resize", side);
    if (resize.max_size && *resize.max_size <= side) {
      refuse("Resize: max_size is " + std::to_string(*resize.max_size),
             "more than size, which is " + std::to_string(side));
    }
  }
  void operator()(const CenterCrop& crop) const { check_size("CenterCrop", crop.size); }
  void operator()(const RandomResizedCrop& crop) const {
    check_size("RandomResizedCrop", crop.size);
    check_range("RandomResizedCrop: scale", crop.scale, 0, 1);
    check_range("RandomResizedCrop: ratio", crop.ratio, kSmallest, kLargest);
  }
  void operator()(const RandomHorizontalFlip& flip) const {
    check_probability("RandomHorizontalFlip", flip.p);
  }
  void operator()(const RandomVerticalFlip& flip) const {
    check_probability("RandomVerticalFlip", flip.p);
  }
  void operator()(const RandomCrop& crop) const {
    check_size("RandomCrop", crop.size);
    const auto& [left, top, right, bottom] = crop.padding;
    if (std::min({left, top, right, bottom}) < 0) {
      refuse("RandomCrop: padding is negative", "0 or more");
    }
  }
  void operator()(const ColorJitter& jitter) const {
    check_range("ColorJitter: brightness", jitter.brightness, 0, kLargest);
    check_range("ColorJitter: contrast", jitter.contrast, 0, kLargest);
    check_range("ColorJitter: saturation", jitter.saturation, 0, kLargest);
    check_range("ColorJitter: hue", jitter.hue, -0.5, 0.5);
  }
  void operator()(const RandAugment& augment) const {
    if (augment.num_ops < 0) {
      refuse("RandAugment: num_ops is " + std::to_string(augment.num_ops), "0 or more");
    }
    if (augment.num_magnitude_bins < 2 || augment.magnitude < 0 ||
        augment.magnitude >= augment.num_magnitude_bins) {
      refuse("RandAugment: magnitude is " + std::to_string(augment.magnitude) + " of " +
                 std::to_string(augment.num_magnitude_bins) + " num_magnitude_bins",
             "at least 2 bins, and 0 or more but less than them");
    }
    if (augment.interpolation == Interpolation::kBicubic) {
      refuse("RandAugment: interpolation is kBicubic", "kNearest or kBilinear");
    }
  }
  void operator()(const Lambda& lambda) const {
    if (!lambda.function) {
      refuse("Lambda: the function is empty", "one to call");
    }
  }
  void operator()(const ToTensor&) const {}
  void operator()(const Normalize& by) const {
    if (std::ranges::find(by.std, 0.0F) != by.std.end()) {
      refuse("Normalize: std has a 0", "numbers to divide by");
    }
  }
  void operator()(const RandomErasing& erasing) const {
    check_probability("RandomErasing", erasing.p);
    check_range("RandomErasing: scale", erasing.scale, 0, 1);
    check_range("RandomErasing: ratio", erasing.ratio, kSmallest, kLargest);
  }
};

bool works_on_floats(const Transform& transform) {
  return std::holds_alternative<Normalize>(transform) ||
         std::holds_alternative<RandomErasing>(transform);
}

}  // namespace

void check_transforms(std::span<const Transform> transforms) {
  bool floats = false;
  for (const Transform& transform : transforms) {
    std::visit(Check{}, transform);
    const bool to_tensor = std::holds_alternative<ToTensor>(transform);
    if (floats != works_on_floats(transform)) {
      refuse(floats ? "Compose: there is something behind ToTensor that works on bytes"
                    : "Compose: Normalize or RandomErasing stands before ToTensor",
             "bytes, ToTensor once, and then Normalize and RandomErasing");
    }
    floats = floats || to_tensor;
  }
  if (!floats) {
    refuse("Compose: there is no ToTensor", "it behind all that work on bytes");
  }
}

}  // namespace lockstep::data
