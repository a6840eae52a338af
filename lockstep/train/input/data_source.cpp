#include "lockstep/train/input/data_source.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/utf8.h"
#include "lockstep/data/datasets/cifar_dataset.h"
#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/readers/folder_listing.h"
#include "lockstep/train/input/folder_source.h"
#include "lockstep/train/input/source_parts.h"
#include "lockstep/train/input/table_source.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

std::string checksum_of(const data::ImageDataset& part) {
  return checksum(part.images()) + "/" + checksum(part.labels());
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
      index_of(train.size(), validation.size(), checksum_of(train) + "/" + checksum_of(validation));
  source.train = std::make_shared<data::ImageDataset>(std::move(train));
  source.validation = std::make_shared<data::ImageDataset>(std::move(validation));
  return source;
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
    if (!fs::is_regular_file(path)) {  // A pipe could be read once, and by one rank.
      throw UsageError("'" + config.data + "' is a pipe or a device, expected a file or a folder");
    }
    if (data::why_no_image(config.data, {})
            .empty()) {  // As a table it would be refused for its first line.
      throw UsageError("'" + config.data + "' is one image, expected a table, or the folder that " +
                       "has a folder of images for each class");
    }
    return open_table(config);
  }
  for (const char* ending : {"", ".gz"}) {
    if (fs::exists(path / (std::string("train-images-idx3-ubyte") + ending))) {
      return idx_folder(config.data, name_of(config.data));
    }
  }
  if (fs::exists(path / "data_batch_1.bin")) {
    if (!fs::exists(path / "test_batch.bin")) {
      throw IoError("'" + config.data + "' has data_batch_1.bin and no test_batch.bin, which " +
                    "would validate; expected all files of CIFAR-10's binary version");
    }
    return cifar_folder(config.data, data::cifar10);
  }
  if (fs::exists(path / "train.bin") && fs::exists(path / "test.bin")) {
    return cifar_folder(config.data, data::cifar100);
  }
  return open_image_folder(config);
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

DataSource open_data(const TrainConfig& config) try {
  auto source = open_named(config);
  require_text(config, source);
  return source;
} catch (const fs::filesystem_error& error) {
  throw IoError("reading '" + config.data + "': " + error.code().message());
}

}  // namespace lockstep::train
