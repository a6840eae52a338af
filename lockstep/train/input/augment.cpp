#include "lockstep/train/input/augment.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/augmented_images.h"

namespace lockstep::train {

std::shared_ptr<const data::Dataset> training_set(const TrainConfig& config,
                                                  const DataSource& source) {
  const data::ImageAugmentation augmentation{
      .padding = config.crop_padding, .hflip = std::max(config.hflip, 0.0), .erase = config.reprob};
  const bool is_off =
      augmentation.padding == 0 && augmentation.hflip == 0 && augmentation.erase == 0;
  if (is_off || !source.folders.empty()) {
    return source.train;
  }
  auto images = std::dynamic_pointer_cast<const data::ImageDataset>(source.train);
  if (!images) {
    throw UsageError("--reprob, --hflip and --crop-padding change images, but " +
                     source.description + " is a table; leave them out");
  }
  return std::make_shared<data::AugmentedImages>(std::move(images), augmentation);
}

data::BatchTransform batch_transform(const TrainConfig& config, const DataSource& source) {
  if (config.mixup == 0 && config.cutmix == 0) {
    return {};
  }
  if (source.is_table()) {
    throw UsageError("--mixup and --cutmix change images, but " + source.description +
                     " is a table; leave them out");
  }
  std::vector<data::BatchTransform> mixes;
  if (config.mixup > 0) {
    mixes.emplace_back(data::MixUp{config.mixup, source.num_classes});
  }
  if (config.cutmix > 0) {
    mixes.emplace_back(data::CutMix{config.cutmix, source.num_classes});
  }
  return data::RandomChoice(std::move(mixes));
}

}  // namespace lockstep::train
