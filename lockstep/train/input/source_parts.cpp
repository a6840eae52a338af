#include "lockstep/train/input/source_parts.h"

#include <filesystem>
#include <span>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/samplers/random_samplers.h"

namespace lockstep::train {

namespace fs = std::filesystem;

std::string name_of(const std::string& path) {
  auto name = fs::path(path).lexically_normal().filename().string();
  if (name.empty() || name == ".") {
    name = fs::absolute(path).lexically_normal().parent_path().filename().string();
  }
  // "photos.v1" and "photos.v2" are two sets; of "points.v1.csv" the format is no part of the name.
  return fs::is_directory(path) ? name : fs::path(name).stem().string();
}

SplitIndices split_by_seed(const std::shared_ptr<const data::Dataset>& all,
                           const TrainConfig& config) {
  if (all->size() < 2) {
    throw UsageError("'" + config.data + "' has " + counted(all->size(), "sample") +
                     ", expected some to train on and some to validate with; HINT: give " +
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

std::string checksum(const at::Tensor& tensor) {
  const auto contiguous = tensor.contiguous();
  return std::to_string(crc32c(std::as_bytes(
      std::span(static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()))));
}

std::string index_of(std::int64_t train, std::int64_t validation, const std::string& checksum) {
  return std::to_string(train) + " + " + std::to_string(validation) + " samples, checksum " +
         checksum;
}

}  // namespace lockstep::train
