#include "lockstep/data/datasets/fashion_mnist.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/read_idx.h"

namespace lockstep::data {
namespace {

constexpr const char* kImages = "-images-idx3-ubyte";
constexpr const char* kLabels = "-labels-idx1-ubyte";

std::string prefix(Split split) { return split == Split::kTrain ? "train" : "t10k"; }

// The plain file if there is one, else the packed one.
std::optional<std::string> find_file(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const auto path = std::filesystem::path(folder) / (name + ending);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      return path.string();
    }
  }
  return std::nullopt;
}

std::string require_file(const std::string& folder, const std::string& name) {
  if (auto path = find_file(folder, name)) {
    return *path;
  }
  throw IoError("fashion_mnist: '" + folder + "' has neither " + name + " nor " + name +
                ".gz; expected the images and labels of both parts, train and t10k");
}

// Here a data set that cannot be made is a fault of the files.
ImageDataset load(const std::string& images, const std::string& labels) {
  try {
    return {read_idx(images), read_idx(labels)};
  } catch (const UsageError& error) {
    throw IoError("fashion_mnist: '" + images + "' and '" + labels + "': " + error.what());
  }
}

}  // namespace

ImageDataset fashion_mnist(const std::string& folder, Split split,
                           const Normalization& normalization) {
  const std::string images = require_file(folder, prefix(split) + kImages);
  const std::string labels = require_file(folder, prefix(split) + kLabels);
  const ImageDataset plain = load(images, labels);
  return {plain.images(), plain.labels(), {.normalization = normalization}};
}

std::optional<std::string> find_fashion_mnist(const std::string& folder) {
  for (const Split split : {Split::kTrain, Split::kTest}) {
    for (const char* kind : {kImages, kLabels}) {
      if (!find_file(folder, prefix(split) + kind)) {
        return std::nullopt;
      }
    }
  }
  return folder;
}

}  // namespace lockstep::data
