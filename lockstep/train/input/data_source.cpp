#include "lockstep/train/input/data_source.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <filesystem>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/base/text/utf8.h"
#include "lockstep/data/datasets/cifar_dataset.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/datasets/table.h"
#include "lockstep/data/readers/csv.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "lockstep/train/input/folder_layout.h"
#include "lockstep/train/input/image_parts.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostClasses = 1'000'000;

std::string checksum(const at::Tensor& tensor) {
  const auto contiguous = tensor.contiguous();
  return std::to_string(crc32c(std::as_bytes(
      std::span(static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()))));
}

std::string checksum(const data::ImageDataset& part) {
  return checksum(part.images()) + "/" + checksum(part.labels());
}

std::string index_of(std::int64_t train, std::int64_t validation, const std::string& sum) {
  return std::to_string(train) + " + " + std::to_string(validation) + " samples, checksum " + sum;
}

struct Parts {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};
// The same on all ranks, and in all runs of the seed. Of few samples one validates.
Parts split_by_seed(const std::shared_ptr<const data::Dataset>& all, const TrainConfig& config) {
  if (all->size() < 2) {
    throw UsageError("'" + config.data + "' has " + std::to_string(all->size()) +
                     " samples, expected some to train on and some to validate with; HINT: give " +
                     "at least 2");
  }
  const auto generator = data::seeded_generator(config.seed);
  auto parts = data::random_split(all, std::vector<double>{1 - config.val_split, config.val_split},
                                  generator);
  if (parts[1].size() == 0) {
    parts = data::random_split(all, std::vector<std::int64_t>{all->size() - 1, 1}, generator);
  }
  return {parts[0].indices(), parts[1].indices()};
}

DataSource of_images(std::string name, std::string description, data::ImageDataset train,
                     data::ImageDataset validation) {
  DataSource source{.name = std::move(name), .description = std::move(description)};
  for (const auto* part : {&train, &validation}) {
    if (part->size() == 0) {
      throw IoError(source.description + ": a part of it has no images, expected at least one");
    }
  }
  const auto& images = train.images();
  source.input = images.sizes().slice(1).vec();
  source.num_classes = train.num_classes();
  source.index =
      index_of(train.size(), validation.size(), checksum(train) + "/" + checksum(validation));
  source.train = std::make_shared<data::ImageDataset>(std::move(train));
  source.validation = std::make_shared<data::ImageDataset>(std::move(validation));
  return source;
}

std::string name_of(const std::string& path) {
  auto name = fs::path(path).lexically_normal().filename().string();
  if (name.empty() || name == ".") {
    name = fs::absolute(path).lexically_normal().parent_path().filename().string();
  }
  // "photos.v1" and "photos.v2" are two sets; of "points.v1.csv" the format is no part of the name.
  return fs::is_directory(path) ? name : fs::path(name).stem().string();
}

DataSource idx_folder(const std::string& folder, const std::string& name) {
  return of_images(name, "'" + folder + "'", data::fashion_mnist(folder, data::Split::kTrain),
                   data::fashion_mnist(folder, data::Split::kTest));
}

DataSource generated(const TrainConfig& config) {
  return of_images("generated", "generated images",
                   data::generated_images({.size = 20'000, .seed = config.seed}),
                   data::generated_images({.size = 2'000, .seed = config.seed + 1}));
}

template <class Read>
DataSource cifar_folder(const std::string& folder, const Read& read) {
  const auto normalization =
      data::Normalization{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  auto source = of_images(name_of(folder), "'" + folder + "'",
                          read(folder, data::Split::kTrain, normalization),
                          read(folder, data::Split::kTest, normalization));
  source.mean = normalization.mean;
  source.std = normalization.std;
  return source;
}

// A file without rows is another one than was meant: the command is wrong, not the disk.
data::Table read_table(const std::string& path, const data::TableOptions& options) {
  try {
    return data::load_table(path, options);
  } catch (const data::NoRows& error) {
    throw UsageError(error.what());
  }
}

// Columns have mean 0 and deviation 1 over the rows that train.
DataSource table(const TrainConfig& config) {
  data::TableOptions options;
  if (const auto number = parse_int(config.label)) {
    options.label_column = *number;
  } else {
    options.label_name = config.label;
  }
  auto read = read_table(config.data, options);
  const auto all = std::make_shared<data::TensorDataset>(std::move(read.rows));
  const auto parts = split_by_seed(all, config);
  const auto rows = [&](const std::vector<std::int64_t>& indices) {
    return at::tensor(indices, at::kLong);
  };
  const auto train = all->data().index_select(0, rows(parts.train));
  const auto mean = train.mean(0);
  auto std = train.std(0, /*unbiased=*/false);
  std = at::where(std > 0, std, at::ones_like(std));
  const auto part = [&](const std::vector<std::int64_t>& indices) {
    return std::make_shared<data::TensorDataset>(
        (all->data().index_select(0, rows(indices)) - mean) / std,
        all->target().index_select(0, rows(indices)));
  };
  DataSource source{.name = name_of(config.data), .description = "'" + config.data + "'"};
  source.note = read.names.empty() ? ", which has no header" : ", the first line is its header";
  source.train = part(parts.train);
  source.validation = part(parts.validation);
  source.is_split_by_seed = true;
  source.input = {all->data().size(1)};
  source.num_classes = all->target().max().item<std::int64_t>() + 1;
  if (source.num_classes > kMostClasses) {
    throw UsageError("'" + config.data + "' has the label " +
                     std::to_string(source.num_classes - 1) + ", expected classes from 0 to " +
                     std::to_string(kMostClasses - 1) + "; HINT: name the column with --label");
  }
  source.index = index_of(source.train->size(), source.validation->size(),
                          checksum(all->data()) + "/" + checksum(all->target()));
  for (std::int64_t column = 0; column < mean.size(0); ++column) {
    source.mean.push_back(mean[column].item<float>());
    source.std.push_back(std[column].item<float>());
  }
  return source;
}

std::string checksum(const data::ImageFolderIndex& index) {
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
                          static_cast<std::int64_t>(parts.validation.size()), checksum(index));
  source.train = std::make_shared<data::Subset>(std::move(train), parts.train);
  source.validation = std::make_shared<data::Subset>(std::move(validation), parts.validation);
  return source;
}

DataSource image_folder(const TrainConfig& config) {
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
                          checksum(train) + "/" + checksum(validation));
  source.warnings = layout.warnings;
  if (const auto test = index_test_part(layout.test, train, source.warnings)) {
    const auto test_images = std::make_shared<data::ImageFolder>(
        *test, validation_transform(config), evaluation_reading(config, *test));
    source.folders.push_back({"test", test_images});
    source.test = test_images;
    source.test_index =
        std::to_string(source.test->size()) + " samples, checksum " + checksum(*test);
  }
  return source;
}

[[noreturn]] void refuse_name(const std::string& data) {
  auto nearest = nearest_name(data, {"fashion-mnist", "generated"});
  if (!nearest) {
    nearest = nearest_path(data);
  }
  throw UsageError("there is no data '" + data +
                   "': no file or folder of that path, and no name of fashion-mnist, generated" +
                   (nearest ? "; HINT: " + *nearest : ""));
}

// A new format is recognised here.
DataSource of_path(const TrainConfig& config) {
  const fs::path path(config.data);
  if (!fs::is_directory(path)) {
    if (!fs::exists(path)) {
      refuse_name(config.data);
    }
    return table(config);
  }
  for (const char* ending : {"", ".gz"}) {
    if (fs::exists(path / (std::string("train-images-idx3-ubyte") + ending))) {
      return idx_folder(config.data, name_of(config.data));
    }
  }
  if (fs::exists(path / "data_batch_1.bin")) {
    return cifar_folder(config.data, data::cifar10);
  }
  if (fs::exists(path / "train.bin") && fs::exists(path / "test.bin")) {
    return cifar_folder(config.data, data::cifar100);
  }
  return image_folder(config);
}

DataSource open_named(const TrainConfig& config) {
  if (config.data == "generated") {
    return generated(config);
  }
  if (config.data.empty() || config.data == "fashion-mnist") {
    if (const auto folder = data::find_fashion_mnist()) {
      return idx_folder(*folder, "fashion-mnist");
    }
    if (!config.data.empty()) {
      throw UsageError(
          "Fashion-MNIST is not installed; HINT: as root, apt-get install "
          "dataset-fashion-mnist, or give the folder of its files");
    }
    auto source = generated(config);
    source.description += " (for Fashion-MNIST, as root: apt-get install dataset-fashion-mnist)";
    return source;
  }
  return of_path(config);
}

// A checkpoint keeps them as text that Python reads. It would fail at the end of an epoch.
void require_text(const TrainConfig& config, const DataSource& source) {
  const auto require = [](const std::string& what, const std::string& name) {
    if (!is_utf8(name)) {
      throw UsageError(what + " '" + printable_name(name) +
                       "' is not UTF-8, so a checkpoint could not name it; HINT: rename it");
    }
  };
  require("the path of the data", config.data);
  for (const auto& name : source.class_names) {
    require("the class", name);
  }
}

}  // namespace

DataSource open_data(const TrainConfig& config) {
  auto source = open_named(config);
  require_text(config, source);
  return source;
}

}  // namespace lockstep::train
