// What data of every kind have in common: a name, two parts, and a text that tells them from
// others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/train/config/config.h"

namespace lockstep::train {

// For the folder of the run: the last part of the path, without a file's extension.
std::string name_of(const std::string& path);

struct SplitIndices {
  std::vector<std::int64_t> train;
  std::vector<std::int64_t> validation;
};
// The same on all ranks, and in all runs of the seed. Of few samples one validates. Throws
// UsageError if there is one sample or none.
SplitIndices split_by_seed(const std::shared_ptr<const data::Dataset>& all,
                           const TrainConfig& config);

std::string checksum(const at::Tensor& tensor);
// DataSource::index.
std::string index_of(std::int64_t train, std::int64_t validation, const std::string& checksum);

}  // namespace lockstep::train
