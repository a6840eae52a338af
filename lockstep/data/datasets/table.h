// Rows of numbers with a class each, from a comma-separated file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/datasets/tensor_dataset.h"

namespace lockstep::data {

struct TableOptions {
  // Which column is the class; negative numbers count from the last one.
  std::int64_t label_column = -1;
  std::string label_name;  // The column's name in the header, instead of its number.
};

struct Table {
  TensorDataset rows;
  std::vector<std::string> names;  // The columns'; empty if the file has no header.
};

// Features are float32 [N, columns - 1], in the file's order and not scaled; labels are int64 [N].
// The header is found by itself; gzip is unpacked. Throws IoError naming path and row if the file
// is not such a table (NoRows, of readers/csv.h, if it has none), has no column but the labels, or
// a label is no whole number from 0 to 1e9; UsageError if it has no such column.
Table load_table(const std::string& path, const TableOptions& options = {});

// Its rows alone.
TensorDataset table_dataset(const std::string& path, const TableOptions& options = {});

}  // namespace lockstep::data
