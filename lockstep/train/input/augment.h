// What is done to training images: crops, flips and erasing of those in memory, mixup and cutmix.
#pragma once

#include <memory>

#include "lockstep/data/loader/mixup.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// The training part with what --hflip, --crop-padding and --reprob ask for; folders of images do
// that by themselves. Throws UsageError if the data has no images.
std::shared_ptr<const data::Dataset> training_set(const TrainConfig& config,
                                                  const DataSource& source);

// Empty if the config asks for none. Where both mixup and cutmix are on, each batch gets one of
// them. Throws UsageError if the data has no images.
data::BatchTransform batch_transform(const TrainConfig& config, const DataSource& source);

}  // namespace lockstep::train
