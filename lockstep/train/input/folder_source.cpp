#include "lockstep/train/input/folder_source.h"

#include <span>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/train/input/folder_layout.h"
#include "lockstep/train/input/image_parts.h"
#include "lockstep/train/input/source_parts.h"

namespace lockstep::train {
namespace {

std::string checksum_of(const data::ImageFolderIndex& index) {
  std::uint32_t sum = 0;
  for (const auto& image : index.images) {
    sum = extend_crc32c(sum, std::as_bytes(std::span(image.path.data(), image.path.size() + 1)));
    const auto& name = index.classes[static_cast<std::size_t>(image.label)];
    if (!image.path.starts_with(name + "/")) {  // Tiny-ImageNet's paths do not tell the class.
      sum = extend_crc32c(sum, std::as_bytes(std::span(name.data(), name.size() + 1)));
    }
  }
  return std::to_string(sum);
}

DataSource finish_folder(const TrainConfig& config, const data::ImageFolderIndex& index) {
  DataSource source{.name = name_of(config.data), .description = "'" + config.data + "'"};
  source.input = {3, config.input_size, config.input_size};
  source.num_classes = static_cast<std::int64_t>(index.classes.size());
  source.class_names = index.classes;
  source.mean.assign(data::kImageNetMean.begin(), data::kImageNetMean.end());
  source.std.assign(data::kImageNetStd.begin(), data::kImageNetStd.end());
  return source;
}

ImagePart train_part(std::shared_ptr<const data::ImageFolder> images) {
  return {.name = "training", .images = std::move(images), .is_scored = false};
}

// A folder of classes, without a part for validation. In place of a bad file comes one of its part,
// so that no image both trains and validates.
DataSource split_folder(const TrainConfig& config, const std::string& root) {
  require_class_folders(root);
  const auto index = data::index_image_folder(root);
  auto source = finish_folder(config, index);
  source.description = "'" + root + "'";
  const auto parts = split_by_seed(std::make_shared<data::ImageFolder>(index), config);
  auto reading = train_reading(config, index);
  reading.may_replace = one_of(parts.train, index.images.size());
  auto train = std::make_shared<data::ImageFolder>(index, train_transform(config), reading);
  reading = evaluation_reading(config, index);
  reading.may_replace = one_of(parts.validation, index.images.size());
  auto validation =
      std::make_shared<data::ImageFolder>(index, validation_transform(config), reading);
  source.folders = {train_part(train), {"validation", validation}};
  source.is_split_by_seed = true;
  source.index = index_of(static_cast<std::int64_t>(parts.train.size()),
                          static_cast<std::int64_t>(parts.validation.size()), checksum_of(index));
  source.train = std::make_shared<data::Subset>(std::move(train), parts.train);
  source.validation = std::make_shared<data::Subset>(std::move(validation), parts.validation);
  return source;
}

}  // namespace

DataSource open_image_folder(const TrainConfig& config) {
  const auto layout = folder_layout(config.data);
  if (layout.validation.empty()) {
    auto source = split_folder(config, layout.train);
    source.warnings = layout.warnings;
    return source;
  }
  require_class_folders(layout.train);
  const auto train = data::index_image_folder(layout.train);
  const auto validation = index_part(layout.validation, train);
  auto source = finish_folder(config, train);
  const auto train_images = std::make_shared<data::ImageFolder>(train, train_transform(config),
                                                                train_reading(config, train));
  const auto validation_images = std::make_shared<data::ImageFolder>(
      validation, validation_transform(config), evaluation_reading(config, validation));
  source.folders = {train_part(train_images), {"validation", validation_images}};
  source.train = train_images;
  source.validation = validation_images;
  source.index = index_of(source.train->size(), source.validation->size(),
                          checksum_of(train) + "/" + checksum_of(validation));
  source.warnings = layout.warnings;
  if (const auto test = index_test_part(layout.test, train, source.warnings)) {
    const auto test_images = std::make_shared<data::ImageFolder>(
        *test, validation_transform(config), evaluation_reading(config, *test));
    source.folders.push_back({"test", test_images});
    source.test = test_images;
    source.test_index =
        std::to_string(source.test->size()) + " samples, checksum " + checksum_of(*test);
  }
  return source;
}

}  // namespace lockstep::train
