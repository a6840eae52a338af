// Tables of numbers from comma-separated files.
//
// A first line without any number is the header; one with a number is data. Fields may have spaces
// or double quotes around them; in quotes there may be separators, and quotes that are written
// twice, as in RFC 4180, but no line ends. Lines may end as on Windows; empty lines do not count.
// Every field of every row is a number that float32 can hold and all rows are of one length, or it
// is an error that names line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

struct CsvTable {
  std::vector<std::string> names;  // The columns'; empty if the file has no header.
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;  // Row after row.
};

struct CsvOptions {
  char separator = ',';
};

// There is no row of numbers in a file: it is empty, or has a header alone.
class NoRows : public IoError {
 public:
  using IoError::IoError;
};

// Throws IoError starting with `name`.
CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

// Reads a plain or gzip file. Throws IoError naming the path.
CsvTable load_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace lockstep::data
