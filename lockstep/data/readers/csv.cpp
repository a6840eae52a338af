#include "lockstep/data/readers/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/readers/byte_reader.h"

namespace lockstep::data {
namespace {

std::string_view without_quotes(std::string_view field) {
  field = trim(field);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') {
    field = trim(field.substr(1, field.size() - 2));
  }
  return field;
}

std::vector<std::string_view> fields_of(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t end = line.find(separator);
    fields.push_back(without_quotes(line.substr(0, end)));
    if (end == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(end + 1);
  }
}

// Nothing unless the whole field is a number.
std::optional<double> number_in(std::string_view field) {
  if (field.starts_with('+')) {
    field.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// For messages: what is in a field may be long.
std::string shown(std::string_view field) {
  constexpr std::size_t kMost = 40;
  return "'" + std::string(field.substr(0, kMost)) + (field.size() > kMost ? "...'" : "'");
}

class CsvParser {
 public:
  CsvParser(std::string name, const CsvOptions& options)
      : name_(std::move(name)), options_(options) {}

  void add_line(std::string_view line) {
    ++line_;
    if (trim(line).empty()) {
      return;
    }
    const auto fields = fields_of(line, options_.separator);
    if (table_.columns == 0) {
      table_.columns = static_cast<std::int64_t>(fields.size());
      if (!std::ranges::all_of(fields, [](auto field) { return number_in(field).has_value(); })) {
        table_.names.assign(fields.begin(), fields.end());
        return;
      }
    }
    add_row(fields);
  }

  CsvTable finish() {
    if (table_.rows == 0) {
      throw IoError("csv '" + name_ + "': there is no row of numbers in " + std::to_string(line_) +
                    " lines");
    }
    return std::move(table_);
  }

 private:
  void add_row(const std::vector<std::string_view>& fields) {
    if (static_cast<std::int64_t>(fields.size()) != table_.columns) {
      refuse(std::to_string(fields.size()) + " fields, expected " + std::to_string(table_.columns) +
             " as in the lines before");
    }
    for (std::size_t column = 0; column < fields.size(); ++column) {
      const auto value = number_in(fields[column]);
      if (!value) {
        refuse("column " + std::to_string(column + 1) + " is " + shown(fields[column]) +
               ", expected a finite number");
      }
      table_.values.push_back(*value);
    }
    ++table_.rows;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw IoError("csv '" + name_ + "': line " + std::to_string(line_) + ": " + what);
  }

  std::string name_;
  CsvOptions options_;
  CsvTable table_;
  std::int64_t line_ = 0;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  CsvParser parser(name, options);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.add_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish();
}

CsvTable load_csv(const std::string& path, const CsvOptions& options) {
  return parse_csv(read_text(path), path, options);
}

}  // namespace lockstep::data
