#include "lockstep/data/readers/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/byte_reader.h"

namespace lockstep::data {
namespace {

struct Field {
  std::string_view text;  // Without the quotes around it; doubled ones inside stay.
  bool is_quoted = false;

  // With what was doubled once.
  [[nodiscard]] std::string value() const {
    std::string value(text);
    if (is_quoted) {
      for (std::size_t at = value.find('"'); at != std::string::npos;
           at = value.find('"', at + 1)) {
        value.erase(at, 1);
      }
    }
    return value;
  }
};

// Where the quoted text at the begin of `line` ends: at the first quote that is not doubled.
std::size_t closing_quote(std::string_view line) {
  std::size_t at = line.find('"', 1);
  while (at != std::string_view::npos && line.substr(at + 1).starts_with('"')) {
    at = line.find('"', at + 2);
  }
  return at;
}

enum class Kind { kNoNumber, kNotFinite, kTooLarge, kTooSmall, kNumber };

struct Number {
  Kind kind = Kind::kNoNumber;
  double value = 0;
};

// Users compute in float32.
Number number_in(std::string_view field) {
  if (field.starts_with('+')) {
    field.remove_prefix(1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc::invalid_argument || end != field.data() + field.size()) {
    return {};
  }
  if (error == std::errc() && !std::isfinite(value)) {
    return {.kind = Kind::kNotFinite};
  }
  if (error != std::errc()) {
    return {.kind =
                contains(field, "e-") || contains(field, "E-") ? Kind::kTooSmall : Kind::kTooLarge};
  }
  if (std::abs(value) > double{std::numeric_limits<float>::max()}) {
    return {.kind = Kind::kTooLarge};
  }
  return {.kind = Kind::kNumber, .value = value};
}

// For messages: what is in a field may be long, and not meant for a terminal.
std::string shown(const Field& field) {
  constexpr std::size_t kMost = 40;
  const std::string value = field.value();
  return "'" + printable_name(std::string_view(value).substr(0, kMost)) +
         (value.size() > kMost ? "...'" : "'");
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
    const auto fields = fields_of(line);
    const bool is_first = table_.columns == 0;
    if (is_first) {
      table_.columns = static_cast<std::int64_t>(fields.size());
      if (is_header(fields)) {
        for (const Field& field : fields) {
          table_.names.push_back(field.value());
        }
        header_hint_ = hint(line);
        return;
      }
    }
    add_row(fields, is_first ? "; a header must have no numbers" : "");
  }

  CsvTable finish() {
    if (table_.rows == 0) {
      throw NoRows("csv '" + printable_name(name_) + "': there is no row of numbers in " +
                   std::to_string(line_) + " lines, expected a header, if any, and rows" +
                   (header_hint_.empty() ? "; HINT: give rows such as 0.5,1.25,0" : header_hint_));
    }
    return std::move(table_);
  }

 private:
  // RFC 4180, within a line.
  [[nodiscard]] std::vector<Field> fields_of(std::string_view line) const {
    std::vector<Field> fields;
    while (true) {
      const std::size_t begin = line.find_first_not_of(options_.separator == '\t' ? " " : " \t");
      if (begin == std::string_view::npos || line[begin] != '"') {
        const std::size_t end = line.find(options_.separator);
        fields.push_back({.text = trim(line.substr(0, end))});
        if (end == std::string_view::npos) {
          return fields;
        }
        line.remove_prefix(end + 1);
        continue;
      }
      line.remove_prefix(begin);
      const std::string column = "column " + std::to_string(fields.size() + 1);
      const std::size_t quote = closing_quote(line);
      if (quote == std::string_view::npos) {
        refuse(column +
               " begins with a quote that is not closed, expected \" at its end, in the "
               "same line");
      }
      fields.push_back({.text = trim(line.substr(1, quote - 1)), .is_quoted = true});
      line.remove_prefix(quote + 1);
      const std::size_t end = line.find(options_.separator);
      if (!trim(line.substr(0, end)).empty()) {
        refuse(column + " goes on behind its closing quote with " +
               shown({.text = trim(line.substr(0, end))}) +
               ", expected a separator; a quote inside is written twice" + hint(line));
      }
      if (end == std::string_view::npos) {
        return fields;
      }
      line.remove_prefix(end + 1);
    }
  }

  // With names alone: a row with a damaged number must not pass for one.
  static bool is_header(const std::vector<Field>& fields) {
    return std::ranges::all_of(
               fields,
               [](const Field& field) { return number_in(field.text).kind == Kind::kNoNumber; }) &&
           std::ranges::any_of(fields, [](const Field& field) { return !field.text.empty(); });
  }

  // If another separator than the comma seems to be meant.
  [[nodiscard]] std::string hint(std::string_view text) const {
    const bool has_other = text.find_first_of(";\t") != std::string_view::npos;
    return options_.separator == ',' && has_other ? "; HINT: the separator must be a comma" : "";
  }

  void add_row(const std::vector<Field>& fields, const std::string& advice) {
    if (static_cast<std::int64_t>(fields.size()) != table_.columns) {
      refuse(std::to_string(fields.size()) + " fields, expected " + std::to_string(table_.columns) +
             " as in the lines before" + header_hint_);
    }
    for (std::size_t column = 0; column < fields.size(); ++column) {
      const Number number = number_in(fields[column].text);
      if (number.kind != Kind::kNumber) {
        refuse("column " + std::to_string(column + 1) + " is " + shown(fields[column]) +
               what_is_wrong(number.kind) + (number.kind == Kind::kNoNumber ? advice : "") +
               hint(fields[column].text));
      }
      table_.values.push_back(number.value);
    }
    ++table_.rows;
  }

  static std::string what_is_wrong(Kind kind) {
    switch (kind) {
      case Kind::kTooLarge:
        return ", which is too large for float32, expected a finite number";
      case Kind::kTooSmall:
        return ", which is too small for float32, expected a finite number, or 0";
      case Kind::kNoNumber:
        return ", which is no number, expected a finite number";
      default:
        return ", expected a finite number";
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw IoError("csv '" + printable_name(name_) + "': line " + std::to_string(line_) + ": " +
                  what);
  }

  std::string name_;
  CsvOptions options_;
  CsvTable table_;
  std::string header_hint_;
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
