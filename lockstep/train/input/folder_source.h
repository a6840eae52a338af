// Folders of images as data: a folder for each class, in parts that train and validate or in none.
#pragma once

#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// The folder config.data. Throws UsageError or IoError if its layout is none that folder_layout.h
// knows, or if the classes of its parts differ.
DataSource open_image_folder(const TrainConfig& config);

}  // namespace lockstep::train
