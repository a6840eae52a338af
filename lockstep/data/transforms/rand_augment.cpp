#include "lockstep/data/transforms/rand_augment.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "lockstep/data/transforms/color.h"
#include "lockstep/data/transforms/geometry.h"

namespace lockstep::data {
namespace {

struct Magnitude {
  double value = 0;
  bool is_signed = false;
};

// torch.linspace(start, end, num_magnitude_bins)[magnitude], which is a float, rounded once.
double linspace(double start, double end, const RandAugment& augment) {
  const auto first = static_cast<float>(start);
  const auto last = static_cast<float>(end);
  const int steps = augment.num_magnitude_bins - 1;
  const int at = augment.magnitude;
  const float step = (last - first) / static_cast<float>(steps);
  return at < (steps + 1) / 2 ? std::fma(step, static_cast<float>(at), first)
                              : std::fma(-step, static_cast<float>(steps - at), last);
}

Magnitude magnitude_of(AugmentOp op, const RandAugment& augment, Size image) {
  const auto part = [&](double highest) { return linspace(0, highest, augment); };
  constexpr double kMostShift = 150.0 / 331.0;
  switch (op) {
    case AugmentOp::kShearX:
    case AugmentOp::kShearY:
      return {part(0.3), true};
    case AugmentOp::kTranslateX:
      return {part(kMostShift * static_cast<double>(image.width)), true};
    case AugmentOp::kTranslateY:
      return {part(kMostShift * static_cast<double>(image.height)), true};
    case AugmentOp::kRotate:
      return {part(30), true};
    case AugmentOp::kBrightness:
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kSharpness:
      return {part(0.9), true};
    case AugmentOp::kPosterize:
      return {8 - std::nearbyint(augment.magnitude / ((augment.num_magnitude_bins - 1) / 4.0))};
    case AugmentOp::kSolarize:
      return {linspace(255, 0, augment)};
    case AugmentOp::kIdentity:
    case AugmentOp::kAutoContrast:
    case AugmentOp::kEqualize:
      break;
  }
  return {};
}

double degrees_of_slope(double slope) { return std::atan(slope) * (180 / std::numbers::pi); }

AffineParameters affine_parameters(const AugmentStep& step, const Image& image) {
  const std::array<double, 2> center = {static_cast<double>(image.width) * 0.5,
                                        static_cast<double>(image.height) * 0.5};
  switch (step.op) {
    case AugmentOp::kShearX:
      return {.shear = {degrees_of_slope(step.magnitude), 0}};
    case AugmentOp::kShearY:
      return {.shear = {0, degrees_of_slope(step.magnitude)}};
    case AugmentOp::kTranslateX:
      return {.center = center, .translate = {std::trunc(step.magnitude), 0}};
    default:
      return {.center = center, .translate = {0, std::trunc(step.magnitude)}};
  }
}

}  // namespace

std::vector<AugmentStep> get_params(const RandAugment& augment, Size image, SampleRandom& random) {
  std::vector<AugmentStep> steps;
  for (int i = 0; i < augment.num_ops; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(kAugmentOps));
    const Magnitude magnitude = magnitude_of(op, augment, image);
    const bool negative = magnitude.is_signed && random.below(2) == 1;
    steps.push_back({op, negative ? -magnitude.value : magnitude.value});
  }
  return steps;
}

Image apply(const AugmentStep& step, const RandAugment& augment, Image image) {
  switch (step.op) {
    case AugmentOp::kShearX:
    case AugmentOp::kShearY:
    case AugmentOp::kTranslateX:
    case AugmentOp::kTranslateY:
      return affine(image, inverse_affine_matrix(affine_parameters(step, image)),
                    augment.interpolation, augment.fill);
    case AugmentOp::kRotate:
      return rotate(image, step.magnitude, augment.interpolation, augment.fill);
    case AugmentOp::kBrightness:
      adjust_brightness(image, 1.0 + step.magnitude);
      break;
    case AugmentOp::kColor:
      adjust_saturation(image, 1.0 + step.magnitude);
      break;
    case AugmentOp::kContrast:
      adjust_contrast(image, 1.0 + step.magnitude);
      break;
    case AugmentOp::kSharpness:
      adjust_sharpness(image, 1.0 + step.magnitude);
      break;
    case AugmentOp::kPosterize:
      posterize(image, static_cast<int>(step.magnitude));
      break;
    case AugmentOp::kSolarize:
      solarize(image, step.magnitude);
      break;
    case AugmentOp::kAutoContrast:
      autocontrast(image);
      break;
    case AugmentOp::kEqualize:
      equalize(image);
      break;
    case AugmentOp::kIdentity:
      break;
  }
  return image;
}

}  // namespace lockstep::data
