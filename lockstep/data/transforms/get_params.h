// What a transform does to a picture of a given size: torchvision's get_params(). Random ones draw
// from the distributions that torchvision draws from.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/data/transforms/transforms.h"

namespace lockstep::data {

// Throws IoError if max_size leaves nothing of the shorter side.
Size get_params(const Resize& resize, Size image);
// The box of these two may reach beyond the picture, where there is padding.
Box get_params(const CenterCrop& crop, Size image);
// Throws UsageError if the picture is too small.
Box get_params(const RandomCrop& crop, Size image, SampleRandom& random);
Box get_params(const RandomResizedCrop& crop, Size image, SampleRandom& random);
// Nothing if nothing is to be erased.
std::optional<Box> get_params(const RandomErasing& erasing, Size image, SampleRandom& random);

enum class Adjustment { kBrightness, kContrast, kSaturation, kHue };
struct JitterStep {
  Adjustment adjustment;
  double factor;
};
// In the order in which they are applied; a range of one value that changes nothing is left out.
std::vector<JitterStep> get_params(const ColorJitter& jitter, SampleRandom& random);

}  // namespace lockstep::data
