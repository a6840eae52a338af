#include "lockstep/data/datasets/table.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/csv.h"

namespace lockstep::data {
namespace {

std::string table_name(const std::string& path) {
  return "table_dataset '" + printable_name(path) + "'";
}

std::int64_t find_label_column(const CsvTable& table, const std::string& path,
                               const TableOptions& options) {
  if (!options.label_name.empty()) {
    const auto found = std::ranges::find(table.names, options.label_name);
    if (found == table.names.end()) {
      throw UsageError(
          table_name(path) + ": there is no column '" + options.label_name + "'; the header has: " +
          (table.names.empty() ? "(there is none)" : printable_name(join(table.names, ", "))));
    }
    return found - table.names.begin();
  }
  const std::int64_t column =
      options.label_column < 0 ? table.columns + options.label_column : options.label_column;
  if (column < 0 || column >= table.columns) {
    throw UsageError(table_name(path) + ": label_column is " +
                     std::to_string(options.label_column) + ", expected one of " +
                     std::to_string(table.columns) + " columns");
  }
  return column;
}

std::int64_t whole_label(const std::string& path, std::int64_t row, double value) {
  constexpr double kMost = 1e9;
  if (value < 0 || value > kMost || value != std::floor(value)) {
    throw IoError(table_name(path) + ": the label of row " + std::to_string(row + 1) + " is " +
                  std::to_string(value) + ", expected a whole number from 0 to 1000000000");
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace

Table load_table(const std::string& path, const TableOptions& options) {
  CsvTable table = load_csv(path);
  const std::int64_t label_column = find_label_column(table, path, options);
  if (table.columns < 2) {
    throw IoError(table_name(path) +
                  ": there is one column, that of the labels, expected at least one more to "
                  "learn from");
  }
  const at::Tensor features = at::empty({table.rows, table.columns - 1}, at::kFloat);
  const at::Tensor labels = at::empty({table.rows}, at::kLong);
  auto* feature = features.mutable_data_ptr<float>();
  auto* label = labels.mutable_data_ptr<std::int64_t>();
  const double* value = table.values.data();
  for (std::int64_t row = 0; row < table.rows; ++row) {
    for (std::int64_t column = 0; column < table.columns; ++column, ++value) {
      if (column == label_column) {
        *label++ = whole_label(path, row, *value);
      } else {
        *feature++ = static_cast<float>(*value);
      }
    }
  }
  return {TensorDataset(features, labels), std::move(table.names)};
}

TensorDataset table_dataset(const std::string& path, const TableOptions& options) {
  return load_table(path, options).rows;
}

}  // namespace lockstep::data
