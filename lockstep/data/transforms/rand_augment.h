// torchvision's RandAugment: a few operations, chosen at random, of one strength.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// In torchvision's order.
enum class AugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kAugmentOps = 14;

struct AugmentStep {
  AugmentOp op;
  double magnitude;
};

std::vector<AugmentStep> get_params(const RandAugment& augment, Size image, SampleRandom& random);

// With the interpolation and the colour of `augment`.
Image apply(const AugmentStep& step, const RandAugment& augment, Image image);

}  // namespace lockstep::data
