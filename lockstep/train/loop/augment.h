// What is done to whole batches of training images: erasing, mixup and cutmix.
#pragma once

#include "lockstep/data/loader/mixup.h"
#include "lockstep/train/loop/config.h"
#include "lockstep/train/loop/data_source.h"

namespace lockstep::train {

// Empty if the config asks for none. Where both mixup and cutmix are on, each batch gets one of
// them. Folders of images erase by themselves. Throws UsageError if the data has no images.
data::BatchTransform batch_transform(const TrainConfig& config, const DataSource& source);

// Sets a random box of each image to 0, with the probability `p`.
data::Sample erase_boxes(data::Sample batch, double p, data::SampleRandom& random);

}  // namespace lockstep::train
