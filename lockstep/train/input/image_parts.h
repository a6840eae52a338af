// The parts of a folder of images: where their classes come from, how their files are read, and
// what they have to tell.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/input/data_source.h"

namespace lockstep::train {

// By --max-bad, --cache and --decode. What is not learned from is decoded exactly, so that fast
// decoding is seen in the accuracy.
data::ImageReading train_reading(const TrainConfig& config, const data::ImageFolderIndex& index);
data::ImageReading evaluation_reading(const TrainConfig& config,
                                      const data::ImageFolderIndex& index);

// What is done with each image, --hflip and --reprob included.
data::Compose train_transform(const TrainConfig& config);
// torchvision's: the middle 7/8 of the picture.
data::Compose validation_transform(const TrainConfig& config);

// For ImageReading::may_replace: whether a file of `size` is one of these.
std::function<bool(std::int64_t)> one_of(const std::vector<std::int64_t>& indices,
                                         std::size_t size);

// A part beside the training part: a folder for each class, or Tiny-ImageNet's. Throws IoError if
// it has other classes than that.
data::ImageFolderIndex index_part(const std::string& root, const data::ImageFolderIndex& train);

// Nothing if the path is empty, or if the part cannot be scored, because it has no classes, say:
// then `warnings` has the reason.
std::optional<data::ImageFolderIndex> index_test_part(const std::string& test,
                                                      const data::ImageFolderIndex& train,
                                                      std::vector<std::string>& warnings);

// Throws UsageError if a flag is for other data than this is.
void require_fitting_flags(const TrainConfig& config, const DataSource& source);

// How much there is of what, and what was found and skipped in each folder, a line each; for
// people.
std::string describe_data(const DataSource& source);

// A rank's own limit is each data set's; this one is the job's: throws IoError on all ranks, the
// same, if they have met more bad files of a part together than it may have. All ranks call it.
void require_few_bad_files(const Group& group, const DataSource& source);

struct ImageNews {
  // How many bad files the ranks have met, each counted once; nothing if the data is not read from
  // image files.
  std::optional<std::int64_t> bad_files;
  std::vector<std::string> bad_file_list;  // Which and why, as far as BadFiles::listed() has them.
  std::vector<std::string> lines;          // The same, and rank 0's caches; for people.
};
// All ranks call it, and all get the same bad files.
ImageNews image_news(const Group& group, const DataSource& source);

}  // namespace lockstep::train
