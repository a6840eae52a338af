#include "lockstep/train/input/table_source.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/datasets/table.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/readers/csv.h"
#include "lockstep/train/input/source_parts.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostClasses = 1'000'000;

// A file without rows is another one than was meant: the command is wrong, not the disk.
data::Table read_table(const std::string& path, const data::TableOptions& options) {
  try {
    return data::load_table(path, options);
  } catch (const data::NoRows& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

DataSource open_table(const TrainConfig& config) {
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
  if (source.num_classes < 2) {
    throw UsageError("'" + config.data +
                     "' has the label 0 alone, expected at least two classes; HINT: name the " +
                     "column with --label");
  }
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

}  // namespace lockstep::train
